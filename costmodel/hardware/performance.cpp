#include "costmodel/hardware/performance.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/json/json_reader.h"

namespace headroom::cost {
namespace {

// A share above one is possible: the FLOPs of a product that skips work, such as causal attention,
// are counted lower than in the datasheet.
constexpr ir::NumberRange kPeakShare = {.least = 1e-4, .greatest = 4};
constexpr ir::NumberRange kSlowed = {.least = 1e-4, .greatest = 1};
constexpr ir::NumberRange kFactor = {.least = 0.1, .greatest = 100};
constexpr ir::NumberRange kLoss = {.least = 0, .greatest = 1};
constexpr ir::NumberRange kElements = {.least = 0, .greatest = 1e5};
constexpr ir::NumberRange kShortTime = {.least = 1e-9, .greatest = 0.1};
constexpr ir::NumberRange kNoTime = {.least = 0, .greatest = 0.1};
constexpr ir::NumberRange kRate = {.least = 1, .greatest = 1e15};
constexpr ir::IntegerRange kCache = {.least = 1, .greatest = std::int64_t{1} << 40};

/// A group of figures that names one of the file's sources.
ir::JsonObject sourced(const ir::JsonObject& root, const char* key) {
  ir::JsonObject group = root.object(key);
  const std::string source = group.text("source");
  const std::optional<ir::JsonObject> sources = root.optional_object("sources");
  if (!sources || sources->optional_text(source).value_or("").empty()) {
    group.refuse("source", "a key of /sources");
  }
  return group;
}

FlopsPerSecond rate_of_share(const ir::JsonObject& group, const char* key, FlopsPerSecond peak) {
  return group.number(key, kPeakShare) * peak;
}

GemmPerformance read_gemm(const ir::JsonObject& group, const DeviceSpec& device) {
  GemmPerformance gemm;
  const FlopsPerSecond half = device.half.value_or(device.fp32);
  gemm.fp32 = rate_of_share(group, "fp32_share", device.fp32);
  gemm.half = rate_of_share(group, "half_share", half);
  const std::optional<double> fp8 = group.optional_number("fp8_share", kPeakShare);
  // Without 8-bit arithmetic, operands are converted to 16 bits first.
  gemm.fp8 = fp8 && device.fp8 ? *fp8 * *device.fp8 : gemm.half;
  gemm.tile_loss = group.number("tile_loss_elements", kElements);
  gemm.k_overhead = group.number("k_overhead_elements", kElements);
  gemm.wave_loss = group.number("wave_loss_share", kLoss);
  gemm.overlap_loss = group.number("overlap_loss_share", kLoss);
  gemm.floor = Seconds{group.number("floor_seconds", kShortTime)};
  gemm.input_gradient = group.number("input_gradient_time", kFactor);
  gemm.weight_gradient = group.number("weight_gradient_time", kFactor);
  gemm.together = group.optional_number("together_rate", kSlowed).value_or(1);
  gemm.uneven_rows = group.optional_number("uneven_rows_rate", kSlowed).value_or(1);
  gemm.odd_rows = group.optional_number("odd_rows_rate", kSlowed).value_or(1);
  gemm.micro_scaled = group.optional_number("micro_scaled_time", kFactor).value_or(1);
  gemm.series = group.number("series_time", kFactor);
  gemm.accumulate_loss = group.number("accumulate_loss_share", kLoss);
  gemm.series_call = Seconds{group.number("series_call_seconds", kNoTime)};
  return gemm;
}

/// `wide`: the rate above head size 128 over the rate at 128, used if a group has no such rate.
AttentionRates read_attention_rates(const ir::JsonObject& group, FlopsPerSecond peak, double wide) {
  const FlopsPerSecond forward = rate_of_share(group, "forward_128_share", peak);
  const FlopsPerSecond backward = rate_of_share(group, "backward_128_share", peak);
  const auto above = [&](const char* key, FlopsPerSecond at_128) {
    const std::optional<double> share = group.optional_number(key, kPeakShare);
    return share ? *share * peak : wide * at_128;
  };
  return {.forward_64 = rate_of_share(group, "forward_64_share", peak),
          .forward_128 = forward,
          .backward_64 = rate_of_share(group, "backward_64_share", peak),
          .backward_128 = backward,
          .forward_wide = above("forward_wide_share", forward),
          .backward_wide = above("backward_wide_share", backward)};
}

AttentionPerformance read_attention(const ir::JsonObject& group, const DeviceSpec& device) {
  AttentionPerformance attention;
  const FlopsPerSecond half = device.half.value_or(device.fp32);
  const double wide = group.number("wide_rate", kFactor);
  attention.native = read_attention_rates(group, half, wide);
  const std::optional<ir::JsonObject> flash2 = group.optional_object("flash2");
  attention.flash2 = flash2 ? read_attention_rates(*flash2, half, wide) : attention.native;
  const std::optional<ir::JsonObject> efficient = group.optional_object("efficient");
  attention.efficient = efficient ? read_attention_rates(*efficient, half, wide) : attention.flash2;
  const std::optional<ir::JsonObject> executor = group.optional_object("executor");
  attention.executor = executor ? read_attention_rates(*executor, half, wide) : attention.flash2;
  attention.key_overhead = group.number("key_overhead_elements", kElements);
  attention.floor = Seconds{group.number("floor_seconds", kShortTime)};
  return attention;
}

MemoryPerformance read_memory_performance(const ir::JsonObject& group, const DeviceSpec& device) {
  MemoryPerformance memory;
  memory.rate = group.number("share", kPeakShare) * device.memory_bandwidth;
  const auto slower = [&](const char* key) {
    const std::optional<double> share = group.optional_number(key, kPeakShare);
    return share ? *share * device.memory_bandwidth : memory.rate;
  };
  memory.permutation = slower("permutation_share");
  memory.cross_entropy = slower("cross_entropy_share");
  memory.elements = group.optional_number("elements_per_second", kRate).value_or(0);
  const auto element = [&](const char* key) {
    const std::optional<double> rate = group.optional_number(key, kRate);
    return rate ? 1 / *rate : 0;
  };
  memory.list_element = element("list_elements_per_second");
  memory.fused_step_element = element("fused_step_elements_per_second");
  memory.quantised_step_element = element("quantised_step_elements_per_second");
  memory.floor = Seconds{group.number("floor_seconds", kShortTime)};
  memory.cache = Bytes{group.integer("cache_bytes", kCache)};
  memory.cached = group.number("cached_rate", kFactor) * memory.rate;
  return memory;
}

LaunchPerformance read_launch(const ir::JsonObject& group) {
  const Seconds eager{group.number("eager_seconds", kShortTime)};
  const Seconds module{group.optional_number("module_seconds", kShortTime).value_or(eager.value())};
  const Seconds graph{group.number("graph_seconds", kShortTime)};
  return {
      .eager = eager,
      .module = module,
      .exchange =
          Seconds{
              group.optional_number("token_exchange_seconds", kShortTime).value_or(module.value())},
      .tensor = Seconds{group.optional_number("tensor_seconds", kShortTime).value_or(0)},
      .compiled = Seconds{group.number("compiled_seconds", kShortTime)},
      .graph = graph,
      .driver =
          Seconds{group.optional_number("driver_seconds", kShortTime).value_or(graph.value())}};
}

HostPerformance read_host(const ir::JsonObject& group, const LinkSpec& link) {
  const auto measured = [&](const char* key) {
    const std::optional<double> rate = group.optional_number(key, kRate);
    return rate ? BytesPerSecond{*rate} : link.bandwidth;
  };
  return {.to_device = measured("to_device_bytes_per_second"),
          .to_host = measured("to_host_bytes_per_second"),
          .latency = Seconds{group.number("copy_latency_seconds", kShortTime)},
          .work = BytesPerSecond{group.number("adam_bytes_per_second", kRate)}};
}

/// Ratio of the shares of a device with less power per datasheet FLOP to those of the measured
/// device. One chip at two power limits shows it: the A100's best products run at 271 TFLOP/s with
/// 400 W and at 253 with 300 W (stas00/ml-engineering, compute/accelerator, August 2026).
double share_at_power(const DeviceSpec& device, const DeviceSpec& measured) {
  const double power = device.power_watts / device.half.value_or(device.fp32).value();
  const double theirs = measured.power_watts / measured.half.value_or(measured.fp32).value();
  const double exponent = std::log(271.0 / 253.0) / std::log(400.0 / 300.0);
  return std::pow(std::min(1.0, power / theirs), exponent);
}

void limit_power(DevicePerformance& performance, double share) {
  GemmPerformance& gemm = performance.gemm;
  for (FlopsPerSecond* const rate : {&gemm.fp32, &gemm.half, &gemm.fp8}) {
    *rate = share * *rate;
  }
  scale_attention(performance.attention, share);
}

/// Work that threads do element by element scales with the multiprocessors, not with the memory.
/// @param ratio  multiprocessors over those of the device with the measured figures.
void scale_elements(MemoryPerformance& memory, double ratio) {
  memory.elements *= ratio;
  for (double* const element :
       {&memory.list_element, &memory.fused_step_element, &memory.quantised_step_element}) {
    *element /= ratio;
  }
}

/// The entry that is used for devices of one architecture.
Result<std::string> family_entry(const std::string& folder, const DeviceSpec& device) {
  const std::string path = folder + "/families.json";
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  // The most specific first: the device, then its compute capability (one architecture may include
  // server and desktop chips), then the architecture.
  const std::string capability = std::to_string(device.traits.compute_major) + "." +
                                 std::to_string(device.traits.compute_minor);
  std::optional<std::string> entry;
  for (const std::string& key :
       {device.name, device.architecture + "-" + capability, device.architecture}) {
    entry = entry ? entry : reader->root().optional_text(key);
  }
  if (!entry) {
    Error error = Error::invalid_argument("gpu", device.name, "a GPU whose family was measured",
                                          "measure it and pass the file in its place");
    error.notes.push_back(path + " has no entry for " + device.architecture);
    return error;
  }
  return *entry;
}

}  // namespace

void scale_attention(AttentionPerformance& attention, double factor) {
  for (AttentionRates* const rates :
       {&attention.native, &attention.flash2, &attention.efficient, &attention.executor}) {
    for (FlopsPerSecond* const rate :
         {&rates->forward_64, &rates->forward_128, &rates->backward_64, &rates->backward_128,
          &rates->forward_wide, &rates->backward_wide}) {
      *rate = factor * *rate;
    }
  }
}

namespace {

/// `root` of `reader`, or an object in it; only there are unknown keys refused.
Result<DevicePerformance> read_object(const ir::JsonReader& reader, const ir::JsonObject& root,
                                      const DeviceSpec& device, const LinkSpec& host_link) {
  root.accept("$schema");
  for (const std::string& key : root.object("sources").keys()) {
    root.object("sources").accept(key);
  }
  DevicePerformance performance;
  performance.device = device.name;
  performance.file = reader.file();
  performance.multiprocessors = device.traits.multiprocessors;
  const std::string measured = root.text("device");
  if (measured != device.name) {
    performance.note = "no measurements of " + device.name +
                       ": its kernels are assumed to reach the same shares of its peak rates as " +
                       "those of " + measured;
  }
  performance.gemm = read_gemm(sourced(root, "gemm"), device);
  performance.attention = read_attention(sourced(root, "attention"), device);
  performance.memory = read_memory_performance(sourced(root, "memory"), device);
  performance.launch = read_launch(sourced(root, "launch"));
  performance.host = read_host(sourced(root, "host"), host_link);
  Status status = reader.finish_refusing_unknown_keys();
  if (!status) {
    return std::move(status).error();
  }
  return performance;
}

/// The member "performance" of a GPU's file.
Result<DevicePerformance> performance_in_device_file(const DeviceSpec& device,
                                                     const LinkSpec& host_link) {
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(device.performance_file);
  if (!reader) {
    return reader.error();
  }
  const ir::JsonObject root = reader->root();
  for (const std::string& key : root.keys()) {
    root.accept(key);  // `read_device` reads the rest of the file.
  }
  return read_object(*reader, root.object("performance"), device, host_link);
}

/// The figures of the file of `entry`, for `device`.
Result<DevicePerformance> performance_like(const std::string& config_dir, const DeviceSpec& device,
                                           const LinkSpec& host_link, const std::string& entry) {
  Result<DevicePerformance> performance =
      read_performance(config_dir + "/performance/" + entry + ".json", device, host_link);
  if (performance && entry != device.name) {
    const Result<DeviceSpec> measured = load_device(config_dir, entry);
    if (!measured) {
      return measured.error();
    }
    limit_power(performance.value(), share_at_power(device, *measured));
    scale_elements(performance.value().memory, static_cast<double>(device.traits.multiprocessors) /
                                                   measured->traits.multiprocessors);
  }
  return performance;
}

}  // namespace

Result<DevicePerformance> read_performance(const std::string& path, const DeviceSpec& device,
                                           const LinkSpec& host_link) {
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  return read_object(*reader, reader->root(), device, host_link);
}

Result<DevicePerformance> performance_of(const std::string& config_dir, const DeviceSpec& device) {
  const Result<LinkSpec> host_link = load_link(config_dir, device.host_link);
  if (!host_link) {
    return host_link.error();
  }
  if (!device.performance_file.empty()) {
    return performance_in_device_file(device, *host_link);
  }
  const std::string folder = config_dir + "/performance";
  std::string entry = device.name;
  if (!std::filesystem::exists(folder + "/" + entry + ".json")) {
    Result<std::string> family = family_entry(folder, device);
    if (!family) {
      return std::move(family).error();
    }
    entry = std::move(family).value();
  }
  return performance_like(config_dir, device, *host_link, entry);
}

Result<DevicePerformance> performance_from_datasheet(const std::string& config_dir,
                                                     const DeviceSpec& device) {
  const Result<LinkSpec> host_link = load_link(config_dir, device.host_link);
  if (!host_link) {
    return host_link.error();
  }
  const std::string path = config_dir + "/performance/families.json";
  const Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  const std::optional<std::string> entry =
      reader->root().optional_text("datasheet-" + device.architecture);
  if (!entry) {
    return Error::invalid_argument("gpu", device.name, "a GPU whose family was measured",
                                   "measure it and pass the file in its place");
  }
  Result<DevicePerformance> performance = performance_like(config_dir, device, *host_link, *entry);
  if (performance) {
    performance.value().estimated = true;
    performance.value().note = "times on " + device.name +
                               " are estimates from its datasheet: nothing was measured on such "
                               "GPUs, and kernels are assumed to reach the shares of the peak "
                               "rates that they reach on " +
                               *entry;
  }
  return performance;
}

}  // namespace headroom::cost
