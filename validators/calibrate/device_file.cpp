#include "validators/calibrate/device_file.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/fit/kernels.h"
#include "costmodel/hardware/performance_json.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "validators/calibrate/cases.h"

namespace headroom::calibrate {
namespace {

using cost::fit::Samples;

/// Measurements with the cases that they belong to.
class Measured {
 public:
  Measured(const std::vector<Case>& cases, const MeasurementFile& file)
      : cases_(cases), file_(file) {}

  /// The first case without a measurement; nullptr: there is none.
  [[nodiscard]] const Case* missing() const {
    const auto found =
        std::ranges::find_if(cases_, [this](const Case& one) { return find(one) == nullptr; });
    return found == cases_.end() ? nullptr : &*found;
  }

  /// Calls `visit(case of this kind, seconds of one call)` for each.
  template <typename Kind, typename Visit>
  void each(const Visit& visit) const {
    for (const Case& one : cases_) {
      if (const Kind* const kind = std::get_if<Kind>(&one.what)) {
        visit(*kind, median_of(find(one)->seconds));
      }
    }
  }

 private:
  [[nodiscard]] const Measurement* find(const Case& one) const {
    const auto found = std::ranges::find(file_.measurements, one.name, &Measurement::name);
    return found == file_.measurements.end() ? nullptr : &*found;
  }

  const std::vector<Case>& cases_;
  const MeasurementFile& file_;
};

void fit_memory(const Measured& measured, cost::DevicePerformance& performance) {
  measured.each<LaunchCase>([&](const LaunchCase& launch, double seconds) {
    (launch.side == LaunchSide::kDevice ? performance.memory.floor : performance.launch.driver) =
        Seconds{seconds};
  });
  std::vector<double> rates;
  BytesPerSecond cached;
  const double floor = performance.memory.floor.value();
  measured.each<TrafficCase>([&](const TrafficCase& traffic, double seconds) {
    // A kernel that takes no longer than the shortest one says nothing about rates.
    const double moving = std::max(seconds - floor, 0.1 * seconds);
    const double rate = static_cast<double>(traffic.bytes) / moving;
    if (traffic.bytes > performance.memory.cache.value()) {
      rates.push_back(rate);
    } else {
      cached = BytesPerSecond{rate};
    }
  });
  cost::MemoryPerformance& memory = performance.memory;
  const BytesPerSecond before = memory.rate;
  memory.rate = BytesPerSecond{median_of(std::move(rates))};
  memory.permutation = (memory.permutation / before) * memory.rate;
  memory.cross_entropy = (memory.cross_entropy / before) * memory.rate;
  memory.cached = std::max(cached, memory.rate);
}

void fit_copies(const Measured& measured, Figures& figures) {
  cost::HostPerformance& host = figures.performance.host;
  std::vector<double> latencies;
  constexpr std::int64_t kSmall = 1 << 16;  // Between the two sizes that are measured.
  measured.each<CopyCase>([&](const CopyCase& copy, double seconds) {
    if (copy.pinned && copy.shape.bytes < kSmall) {
      latencies.push_back(seconds);
    }
  });
  host.latency = Seconds{median_of(std::move(latencies))};
  measured.each<CopyCase>([&](const CopyCase& copy, double seconds) {
    if (copy.shape.bytes < kSmall) {
      return;
    }
    const double moving = std::max(seconds - host.latency.value(), 0.1 * seconds);
    const BytesPerSecond rate{static_cast<double>(copy.shape.bytes) / moving};
    const bool to_device = copy.shape.kind == ir::CopyKind::kHostToDevice;
    (copy.pinned ? (to_device ? host.to_device : host.to_host)
                 : (to_device ? figures.pageable_to_device : figures.pageable_to_host)) = rate;
  });
}

Samples<ir::GemmShape> products_where(const Measured& measured,
                                      const std::function<bool(const GemmCase&)>& wanted) {
  Samples<ir::GemmShape> samples;
  measured.each<GemmCase>([&](const GemmCase& gemm, double seconds) {
    if (wanted(gemm)) {
      samples.push_back({.shape = gemm.shape, .measured = Seconds{seconds}});
    }
  });
  return samples;
}

/// A product of rows that are multiples of 16 bytes, as models have them.
bool is_plain(const GemmCase& gemm, ir::DType dtype) {
  constexpr std::int64_t kEven = 8;
  return gemm.shape.dtype == dtype && gemm.math == HEADROOM_MATH_EXACT && gemm.workspace &&
         gemm.shape.n % kEven == 0;
}

void fit_products(const Measured& measured, Figures& figures) {
  using cost::GemmPerformance;
  cost::DevicePerformance& performance = figures.performance;
  const auto plain = products_where(
      measured, [](const GemmCase& gemm) { return is_plain(gemm, ir::DType::kBf16); });
  const FlopsPerSecond before = performance.gemm.half;
  cost::fit::fit_measured_gemm(performance, plain);
  // No 8-bit product is measured: it stays as far above those of 16 bits as it was.
  performance.gemm.fp8 = (performance.gemm.half / before) * performance.gemm.fp8;
  cost::fit::fit_gemm_figure(performance, &GemmPerformance::fp32,
                             products_where(measured, [](const GemmCase& gemm) {
                               return is_plain(gemm, ir::DType::kFp32);
                             }));
  const auto uneven = [&measured](bool odd) {
    return products_where(measured, [odd](const GemmCase& gemm) {
      return gemm.shape.n % 8 != 0 && (gemm.shape.n % 2 != 0) == odd;
    });
  };
  cost::fit::fit_gemm_figure(performance, &GemmPerformance::uneven_rows, uneven(false));
  cost::fit::fit_gemm_figure(performance, &GemmPerformance::odd_rows, uneven(true));
  performance.gemm.uneven_rows = std::min(performance.gemm.uneven_rows, 1.0);
  performance.gemm.odd_rows = std::min(performance.gemm.odd_rows, 1.0);
  std::vector<double> errors =
      cost::fit::residuals_of(plain, [&performance](const ir::GemmShape& shape) {
        return cost::gemm_time(performance, shape);
      }).fitted;
  std::ranges::sort(errors);
  constexpr double kHigh = 0.9;
  figures.median_error = errors[errors.size() / 2];
  figures.p90_error =
      errors[static_cast<std::size_t>(kHigh * static_cast<double>(errors.size() - 1))];
}

/// Products that the time model has no figures for, relative to what it predicts.
void compare_products(const Measured& measured, Figures& figures) {
  std::vector<double> fp16;
  std::vector<double> tf32;
  measured.each<GemmCase>([&](const GemmCase& gemm, double seconds) {
    ir::GemmShape half = gemm.shape;
    half.dtype = ir::DType::kBf16;
    const double predicted = cost::gemm_time(figures.performance, half).value();
    if (gemm.shape.dtype == ir::DType::kFp16) {
      fp16.push_back(seconds / predicted);
    } else if (gemm.math == HEADROOM_MATH_TF32) {
      tf32.push_back(gemm.shape.flops() / seconds);
    } else if (!gemm.workspace) {
      figures.without_workspace = seconds / predicted;
    }
  });
  figures.fp16_time = median_of(std::move(fp16));
  figures.tf32 = FlopsPerSecond{*std::ranges::max_element(tf32)};
}

void fit_attention(const Measured& measured, cost::DevicePerformance& performance) {
  Samples<ir::AttentionShape> samples;
  measured.each<AttentionCase>([&](const AttentionCase& attention, double seconds) {
    ir::AttentionShape shape = attention.shape;
    shape.kernel = ir::AttentionKernel::kNative;
    samples.push_back({.shape = shape, .measured = Seconds{seconds}});
  });
  cost::DevicePerformance own = performance;
  own.attention.native = performance.attention.executor;
  cost::fit::fit_all_attention(own, samples, false);
  performance.attention.executor = own.attention.native;
}

/// `object` with the member `key` replaced, or appended.
void set(ir::JsonValue& object, std::string_view key, ir::JsonValue value) {
  ir::JsonValue::Object& members = *object.as_object();
  const auto found = std::ranges::find(members, key, &ir::JsonMember::key);
  if (found == members.end()) {
    members.push_back({.key = std::string(key), .value = std::move(value)});
  } else {
    found->value = std::move(value);
  }
}

void remove(ir::JsonValue& object, std::string_view key) {
  std::erase_if(*object.as_object(), [key](const ir::JsonMember& one) { return one.key == key; });
}

cost::PerformanceSources sources_of(const CatalogueGpu& gpu, const MeasuredDevice& device) {
  const std::string by = "headroom calibrate on " + device.product + ", " + device.libraries +
                         (device.date.empty() ? "" : ", " + device.date);
  const std::string kept =
      gpu.performance.note.empty() ? gpu.performance.file : gpu.performance.note;
  return {
      .gemm = by + "; fp8, series and together_rate: not measured, as before (" + kept + ")",
      .attention = by + ": the group executor; all others: not measured, as before (" + kept + ")",
      .memory = by + ": share, floor_seconds and cached_rate; others: not measured, as before (" +
                kept + ")",
      .launch = by + ": driver_seconds; others: not measured, as before (" + kept + ")",
      .host = by + "; adam_bytes_per_second: not measured, as before (" + kept + ")"};
}

}  // namespace

Result<CatalogueGpu> catalogue_gpu(const std::string& config_dir, const std::string& name) {
  Result<cost::DeviceSpec> device = cost::load_device(config_dir, name);
  if (!device) {
    return std::move(device).error();
  }
  Result<cost::DevicePerformance> performance = cost::performance_of(config_dir, *device);
  if (!performance) {
    return std::move(performance).error();
  }
  CatalogueGpu gpu{.device = std::move(device).value(),
                   .file = {},
                   .performance = std::move(performance).value()};
  gpu.file = name.ends_with(".json") ? name : config_dir + "/hardware/" + gpu.device.name + ".json";
  return gpu;
}

Result<Figures> fit_figures(const CatalogueGpu& gpu, const MeasurementFile& file) {
  const std::vector<Case> cases = all_cases(gpu.performance.memory.cache);
  const Measured measured(cases, file);
  if (const Case* const missing = measured.missing()) {
    return Error::invalid_argument("measurements", "nothing for " + missing->name,
                                   "a measurement of every case");
  }
  Figures figures{.performance = gpu.performance};
  figures.performance.multiprocessors = file.device.multiprocessors;
  fit_memory(measured, figures.performance);
  fit_copies(measured, figures);
  fit_products(measured, figures);
  compare_products(measured, figures);
  fit_attention(measured, figures.performance);
  return figures;
}

std::vector<const Measurement*> unsteady(const MeasurementFile& file) {
  std::vector<const Measurement*> found;
  for (const Measurement& one : file.measurements) {
    if (spread_of(one.seconds) > kWidestSpread) {
      found.push_back(&one);
    }
  }
  std::ranges::stable_sort(found, std::greater<>{},
                           [](const Measurement* one) { return spread_of(one->seconds); });
  return found;
}

Result<ir::JsonValue> device_document(const CatalogueGpu& gpu, const MeasuredDevice& device,
                                      const Figures& figures) {
  const Result<std::string> text = read_file(gpu.file);
  if (!text) {
    return text.error();
  }
  Result<ir::JsonValue> read = ir::parse_json(*text, gpu.file);
  if (!read) {
    return read;
  }
  ir::JsonValue document = std::move(read).value();
  remove(document, "$schema");  // Its path is relative to the catalogue's folder.
  cost::DeviceSpec spec = gpu.device;
  const std::string source = "headroom calibrate";
  if (spec.driver_total && device.total_bytes > spec.driver_total->value()) {
    remove(document, "driver_total_bytes");
  }
  ir::JsonFields total;
  total.add("value", device.total_bytes);
  total.add("basis", "measured");
  total.add("source", "calibrate");
  set(document, "total_bytes", std::move(total).finish());
  ir::JsonFields processors;
  processors.add("value", device.multiprocessors);
  processors.add("source", "calibrate");
  set(document, "multiprocessors", std::move(processors).finish());
  for (ir::JsonMember& member : *document.as_object()) {
    if (member.key == "sources") {
      set(member.value, "calibrate",
          ir::JsonValue{source + ": what the driver reports of " + device.product + ", " +
                        device.libraries + (device.date.empty() ? "" : ", " + device.date)});
    }
  }
  set(document, "performance",
      cost::performance_to_json(figures.performance, spec, sources_of(gpu, device)));
  return document;
}

}  // namespace headroom::calibrate
