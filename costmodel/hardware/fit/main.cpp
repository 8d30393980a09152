// Fits configs/performance to the measurements in `data` and prints residuals as Markdown tables:
//     headroom_fit_performance DATA CONFIGS [--write]
// Figures that no measurement here determines keep their values in the files.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/fit/kernels.h"
#include "costmodel/hardware/fit/links.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cost::fit {
namespace {

struct Data {
  SamplesOf<ir::GemmShape> gemms;
  SamplesOf<ir::GemmShape> training_gemms;
  SamplesOf<ir::AttentionShape> attention;
  SamplesOf<ir::AttentionShape> training_attention;
  SamplesOf<ir::CollectiveShape> collectives;
};

template <typename T>
T or_fail(Result<T> result) {
  if (!result) {
    throw InternalError(to_text(result.error()));
  }
  return std::move(result).value();
}

/// A number with four significant digits; no fit is more accurate.
double rounded(double value) {
  if (value == 0) {
    return 0;
  }
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 3);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", std::round(value / unit) * unit);
  return number_in(text);
}

/// The member `key` of an object; null if it has none.
ir::JsonValue* member_of(ir::JsonValue& object, std::string_view key) {
  for (ir::JsonMember& member : *object.as_object()) {
    if (member.key == key) {
      return &member.value;
    }
  }
  return nullptr;
}

/// Sets a figure of a group; the file must already have it.
void set(ir::JsonValue& group, std::string_view key, double value) {
  if (ir::JsonValue* figure = member_of(group, key)) {
    *figure = ir::JsonValue{rounded(value)};
  }
}
void set(ir::JsonValue& root, std::string_view group, std::string_view key, double value) {
  if (ir::JsonValue* figures = member_of(root, group)) {
    set(*figures, key, value);
  }
}

void set_rates(ir::JsonValue& group, const AttentionRates& rates, FlopsPerSecond peak) {
  set(group, "forward_64_share", rates.forward_64 / peak);
  set(group, "forward_128_share", rates.forward_128 / peak);
  set(group, "backward_64_share", rates.backward_64 / peak);
  set(group, "backward_128_share", rates.backward_128 / peak);
  set(group, "forward_wide_share", rates.forward_wide / peak);
  set(group, "backward_wide_share", rates.backward_wide / peak);
}

Residuals gemm_residuals(const DevicePerformance& device, const Samples<ir::GemmShape>& samples) {
  return residuals_of(samples,
                      [&](const ir::GemmShape& shape) { return gemm_time(device, shape); });
}
Residuals attention_residuals(const DevicePerformance& device,
                              const Samples<ir::AttentionShape>& samples) {
  return residuals_of(
      samples, [&](const ir::AttentionShape& shape) { return attention_time(device, shape); });
}

/// The samples with at least `rows` rows, as products in training have.
Samples<ir::GemmShape> with_rows(const Samples<ir::GemmShape>& samples, std::int64_t rows) {
  Samples<ir::GemmShape> some;
  for (const Sample<ir::GemmShape>& sample : samples) {
    if (sample.shape.m >= rows) {
      some.push_back(sample);
    }
  }
  return some;
}

void write_device(const std::string& path, const DevicePerformance& fitted,
                  const DeviceSpec& spec) {
  ir::JsonValue root = or_fail(ir::parse_json(or_fail(read_file(path)), path));
  const GemmPerformance& gemm = fitted.gemm;
  const FlopsPerSecond half = spec.half.value_or(spec.fp32);
  set(root, "gemm", "half_share", gemm.half / half);
  if (spec.fp8) {
    set(root, "gemm", "fp8_share", gemm.fp8 / *spec.fp8);
  }
  set(root, "gemm", "tile_loss_elements", gemm.tile_loss);
  set(root, "gemm", "k_overhead_elements", gemm.k_overhead);
  set(root, "gemm", "wave_loss_share", gemm.wave_loss);
  set(root, "gemm", "overlap_loss_share", gemm.overlap_loss);
  set(root, "gemm", "floor_seconds", gemm.floor.value());
  set(root, "gemm", "input_gradient_time", gemm.input_gradient);
  set(root, "gemm", "weight_gradient_time", gemm.weight_gradient);
  set(root, "gemm", "together_rate", gemm.together);
  set(root, "gemm", "series_time", gemm.series);
  set(root, "gemm", "accumulate_loss_share", gemm.accumulate_loss);
  set(root, "gemm", "series_call_seconds", gemm.series_call.value());
  if (ir::JsonValue* attention = member_of(root, "attention")) {
    set_rates(*attention, fitted.attention.native, half);
    if (ir::JsonValue* flash2 = member_of(*attention, "flash2")) {
      set_rates(*flash2, fitted.attention.flash2, half);
    }
    if (ir::JsonValue* efficient = member_of(*attention, "efficient")) {
      set_rates(*efficient, fitted.attention.efficient, half);
    }
  }
  const AttentionRates& native = fitted.attention.native;
  set(root, "attention", "wide_rate", native.forward_wide / native.forward_128);
  set(root, "attention", "key_overhead_elements", fitted.attention.key_overhead);
  set(root, "attention", "floor_seconds", fitted.attention.floor.value());
  set(root, "memory", "share", fitted.memory.rate / spec.memory_bandwidth);
  const Status written = write_file_atomically(path, to_pretty_json(root) + "\n");
  if (!written) {
    throw InternalError(to_text(written.error()));
  }
}

/// The best measured large products as shares of the datasheet's rate: 16-bit and 8-bit.
/// Source: stas00/ml-engineering, compute/accelerator (August 2026), maximum achievable matmul.
struct BestShares {
  double half;
  double fp8;
};
std::optional<BestShares> best_shares(const std::string& device) {
  static const std::map<std::string, BestShares> known = {
      {"a100-80gb", {271.0 / 312, 0}},
      {"a100-80gb-pcie", {253.0 / 312, 0}},
      {"h100-80gb", {794.5 / 989, 1403.0 / 1979}},
      {"h200", {794.5 / 989, 1453.0 / 1979}},
      {"b200", {1745.0 / 2250, 3433.0 / 4500}},
      {"b300", {1769.0 / 2250, 3353.0 / 4500}},
      {"gb200", {1822.0 / 2500, 3616.0 / 5000}},
  };
  const auto found = known.find(device);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

/// Sets the rate of 8-bit products in training. It lies below the best one by the same factor as
/// 16-bit products of the same series of measurements. The 8-bit kernels of serving scale by row,
/// so they are no guide.
void set_fp8(DevicePerformance& device, FlopsPerSecond typical_half, const DeviceSpec& spec) {
  // No best product of the GB300 is known; the GB200's is used, which has the same peak.
  const std::optional<BestShares> best =
      best_shares(device.device == "gb300" ? "gb200" : device.device);
  if (best && spec.fp8) {
    const double below = std::min(1.0, typical_half / *spec.half / best->half);
    device.gemm.fp8 = below * best->fp8 * *spec.fp8;
  }
}

/// Rate of 16-bit products in training steps. Derived: in a step of Llama 3.1 8B (DeepSpeed ZeRO-2
/// on eight GPUs, one sequence of 8192 tokens, Liger's kernels) everything except attention ran at
/// 463 TFLOP/s on H200 and at 771 on B200 (stas00/ml-engineering, insights, August 2026), which
/// takes 852 and 512 ms; kernels bound by memory, exposed communication and the optimizer take 163
/// and 110 ms of it in this model.
constexpr FlopsPerSecond kBlackwellProductsInStep{982e12};

/// The same on an H100 SXM, from the kernels of 17 training steps: those of Llama, Mistral and
/// Qwen3 with 1 to 8 billion parameters, no adapters, whose kernels filled 0.94 of the step
/// (tests/gpu/results/h100_step_kernels.csv): 772 to 793 TFLOP/s, while long series of single
/// products reach 685 under the power limit. The H200 has its chip and its power limit.
constexpr FlopsPerSecond kHopperProductsInStep{780e12};
/// The same on eight H200, derived as for the B200: the step's products take 852 ms minus 163 ms.
constexpr FlopsPerSecond kHopperProductsTogether{573e12};

/// Rate of FlashAttention-2 with heads of 128 in training steps, relative to lone kernels; the
/// clocks are lower in steps. From the profiled steps of tests/gpu/results/h100_step_kernels.csv.
constexpr double kFlash2InStep = 0.965;

/// The device whose measured training kernels are used for `device`.
const char* training_relative(const std::string& device) {
  return device.starts_with("b") || device.starts_with("g") ? "b200" : "a100-80gb-pcie";
}

/// Rate of products in a training step over their rate alone, for every type, on GPUs with the chip
/// of the B200 or B300, the same memory and other power limits. Derived: a step of Llama 3 8B in
/// MXFP8 ran at 29455 tokens/s on each of eight B200, at 29857 on GB200 and at 36108 on GB300
/// (means of the figures in parentheses of releases 25.09 and 25.11 in NVIDIA-NeMo/Megatron-Bridge
/// docs/performance-summary.md; no row of tests/measured). This model predicts 30407 on B200. If it
/// is too fast by the same factor on the others, products take 2.54 s and 2.05 s of their steps of
/// 4.25 s and 3.52 s; alone, they would take 1.96 s and 1.82 s. No step of the B300 is known; the
/// B200's factor is used.
double blackwell_step_clock(const std::string& device, double on_b200) {
  return device == "gb200" ? 0.772 : device == "gb300" ? 0.886 : on_b200;
}
bool runs_blackwell_chips(const std::string& device) {
  return device == "b300" || device == "gb200" || device == "gb300";
}

struct Fitter {
  std::string configs;
  bool write = false;
  Data data;
  std::map<std::string, DevicePerformance> fitted;
  /// Rate of products in long steps over their rate alone, for every type, on the B200.
  double b200_step_clock = 1;

  DeviceSpec spec(const std::string& name) const { return or_fail(load_device(configs, name)); }

  /// Where fits begin: typical shares of the datasheet's rates, independent of the current file.
  DevicePerformance start(const std::string& name) const {
    const DeviceSpec device = spec(name);
    DevicePerformance performance = or_fail(performance_of(configs, device));
    performance.gemm.half = 0.75 * *device.half;
    performance.gemm.floor = Seconds{3e-6};
    performance.attention.native = {0.45 * *device.half, 0.6 * *device.half,  0.35 * *device.half,
                                    0.5 * *device.half,  0.54 * *device.half, 0.45 * *device.half};
    performance.attention.key_overhead = 200;
    performance.attention.floor = Seconds{8e-6};
    performance.gemm.input_gradient = performance.gemm.weight_gradient = 1;
    performance.gemm.series = 1;
    return performance;
  }

  void finish(const DevicePerformance& device) {
    fitted[device.device] = device;
    if (write) {
      write_device(configs + "/performance/" + device.device + ".json", device,
                   spec(device.device));
    }
  }

  /// Fits a device whose training kernels were measured; serving kernels provide the rest.
  void fit_training(const std::string& name, const std::string& serving) {
    DevicePerformance device = start(name);
    DevicePerformance served = start(serving);
    fit_gemm(served, data.gemms[serving]);
    fit_attention(served, data.attention[serving]);
    set_fp8(device, served.gemm.half, spec(name));
    device.gemm.floor = served.gemm.floor;
    fit_training_gemm(device, data.training_gemms[name]);
    fit_series(device, data.training_gemms[name + " series"]);
    if (name == "b200") {
      const FlopsPerSecond alone = device.gemm.half;
      set_products_in_step(device, kBlackwellProductsInStep);
      b200_step_clock = device.gemm.half / alone;
      device.gemm.fp8 = b200_step_clock * device.gemm.fp8;
    }
    device.attention.native.forward_64 =
        (served.attention.native.forward_64 / served.attention.native.forward_128) *
        device.attention.native.forward_128;
    device.attention.floor = served.attention.floor;
    fit_training_attention(device, data.training_attention[name]);
    std::printf("%s", table_row(name + ", products of training, bf16",
                                gemm_residuals(device, data.training_gemms[name]))
                          .c_str());
    const auto alone = [&device](const ir::GemmShape& shape) { return series_time(device, shape); };
    std::printf("%s", table_row(name + ", products in series, bf16",
                                residuals_of(data.training_gemms[name + " series"], alone))
                          .c_str());
    std::printf("%s", table_row(name + ", attention forward and backward, bf16",
                                attention_residuals(device, data.training_attention[name]))
                          .c_str());
    finish(device);
  }

  /// Fits a device on which the kernels of PyTorch training were measured.
  void fit_hopper(const std::string& name) {
    DevicePerformance device = start(name);
    DevicePerformance served = device;
    fit_gemm(served, data.gemms[name]);
    device.gemm.floor = served.gemm.floor;
    fit_training_gemm(device, data.training_gemms[name]);
    std::printf("%s", table_row(name + ", products of training, bf16",
                                gemm_residuals(device, data.training_gemms[name]))
                          .c_str());
    set_products_in_step(device, kHopperProductsInStep);
    device.gemm.together = kHopperProductsTogether / kHopperProductsInStep;
    set_fp8(device, device.gemm.half, spec(name));
    const GemmPerformance& relative = fitted.at("a100-80gb-pcie").gemm;
    device.gemm.series = relative.series;
    device.gemm.accumulate_loss = relative.accumulate_loss;
    device.gemm.series_call = relative.series_call;
    fit_all_attention(device, data.training_attention[name], true);
    DevicePerformance flash = device;
    fit_all_attention(flash, data.training_attention[name + " flash2"], false);
    DevicePerformance efficient = device;
    fit_all_attention(efficient, data.training_attention[name + " efficient"], false);
    device.attention.flash2 = flash.attention.native;
    device.attention.flash2.forward_128 = kFlash2InStep * device.attention.flash2.forward_128;
    device.attention.flash2.backward_128 = kFlash2InStep * device.attention.flash2.backward_128;
    device.attention.efficient = efficient.attention.native;
    std::printf("%s", table_row(name + ", cuDNN attention forward and backward, bf16",
                                attention_residuals(device, data.training_attention[name]))
                          .c_str());
    std::printf("%s",
                table_row(name + ", FlashAttention-2 forward and backward, bf16",
                          attention_residuals(flash, data.training_attention[name + " flash2"]))
                    .c_str());
    std::printf("%s", table_row(name + ", memory-efficient attention forward and backward, bf16",
                                attention_residuals(efficient,
                                                    data.training_attention[name + " efficient"]))
                          .c_str());
    finish(device);
  }

  /// Copies the kernels of a fitted device that has the same chip, peak and power limit.
  void take_kernels(const std::string& name, const std::string& from) {
    DevicePerformance device = start(name);
    device.gemm = fitted.at(from).gemm;
    device.attention = fitted.at(from).attention;
    std::printf("%s", table_row(name + ", products of serving, bf16, all",
                                gemm_residuals(device, data.gemms[name]))
                          .c_str());
    finish(device);
  }

  /// Limits products to the best one with random operands. A serving benchmark may use operands
  /// that are not random; they draw less power, so its products can be faster than any in training.
  /// On the A100 they are, by a tenth. Its products are therefore those of training on the other
  /// board with the same chip, scaled by the ratio of the two boards' best products.
  void hold_to_best(DevicePerformance& device) const {
    const DeviceSpec own = spec(device.device);
    const std::optional<BestShares> best = best_shares(device.device);
    if (device.device == "a100-80gb") {
      const GemmPerformance serving = device.gemm;
      device.gemm = fitted.at("a100-80gb-pcie").gemm;
      device.gemm.half = (best->half / best_shares("a100-80gb-pcie")->half) * device.gemm.half;
      device.gemm.floor = serving.floor;
    } else if (best) {
      device.gemm.half = std::min(device.gemm.half, best->half * *own.half);
    }
  }

  /// Fits a device whose serving kernels were measured; layouts, groups and backward come from a
  /// relative.
  void fit_serving(const std::string& name) {
    DevicePerformance device = start(name);
    fit_gemm(device, data.gemms[name]);
    fit_attention(device, data.attention[name]);
    hold_to_best(device);
    set_fp8(device, device.gemm.half, spec(name));
    const DevicePerformance& relative = fitted.at(training_relative(name));
    if (runs_blackwell_chips(name)) {
      const double clock = blackwell_step_clock(name, b200_step_clock);
      device.gemm.half = clock * device.gemm.half;
      device.gemm.fp8 = clock * device.gemm.fp8;
      device.memory.rate = relative.memory.rate;  // Measured in training, not when reading weights.
    }
    device.gemm.input_gradient = relative.gemm.input_gradient;
    device.gemm.weight_gradient = relative.gemm.weight_gradient;
    device.gemm.series = relative.gemm.series;
    device.gemm.accumulate_loss = relative.gemm.accumulate_loss;
    device.gemm.series_call = relative.gemm.series_call;
    // The B300 has the GB300's chip, whose kernels of training were measured.
    const AttentionRates& theirs =
        (name == "b300" ? fitted.at("gb300") : relative).attention.native;
    AttentionRates& rates = device.attention.native;
    rates.forward_wide = (theirs.forward_wide / theirs.forward_128) * rates.forward_128;
    rates.backward_64 = (theirs.backward_64 / theirs.forward_64) * rates.forward_64;
    rates.backward_128 = (theirs.backward_128 / theirs.forward_128) * rates.forward_128;
    rates.backward_wide = (theirs.backward_wide / theirs.forward_128) * rates.forward_128;
    std::printf("%s", table_row(name + ", products of serving, bf16, 256 rows and more",
                                gemm_residuals(device, with_rows(data.gemms[name], 256)))
                          .c_str());
    std::printf("%s", table_row(name + ", products of serving, bf16, all",
                                gemm_residuals(device, data.gemms[name]))
                          .c_str());
    std::printf("%s", table_row(name + ", attention forward, bf16",
                                attention_residuals(device, data.attention[name]))
                          .c_str());
    if (const auto trained = data.training_attention.find(name);
        trained != data.training_attention.end()) {
      fit_wide_attention(device, trained->second);
      std::printf("%s", table_row(name + ", attention forward and backward, bf16",
                                  attention_residuals(device, trained->second))
                            .c_str());
    }
    finish(device);
  }
};

int run(const std::vector<std::string>& arguments) {
  Fitter fitter;
  const std::string& folder = arguments[0];
  fitter.configs = arguments[1];
  fitter.write = arguments.size() > 2 && arguments[2] == "--write";
  fitter.data.gemms = or_fail(read_gemms(folder));
  fitter.data.training_gemms = or_fail(read_training_gemms(folder));
  fitter.data.attention = or_fail(read_attention(folder));
  fitter.data.training_attention = or_fail(read_training_attention(folder));
  fitter.data.collectives = or_fail(read_collectives(folder));
  std::printf(
      "| kind | fitted | median | p90 | held out | median | p90 |\n"
      "|---|---|---|---|---|---|---|\n");
  fitter.fit_training("a100-80gb-pcie", "a100-80gb");
  fitter.fit_training("b200", "b200");
  fitter.fit_hopper("h100-80gb");
  fitter.take_kernels("h200", "h100-80gb");
  for (const char* const name :
       {"a100-80gb", "gb200", "gb300", "b300", "l40s", "rtx-pro-6000-blackwell"}) {
    fitter.fit_serving(name);
  }
  fit_links(fitter.data.collectives, fitter.configs, fitter.write);
  return 0;
}

}  // namespace
}  // namespace headroom::cost::fit

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.size() < 2) {
    std::fprintf(stderr, "usage: headroom_fit_performance DATA CONFIGS [--write]\n");
    return 2;
  }
  try {
    return headroom::cost::fit::run(arguments);
  } catch (const headroom::InternalError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
