#include "runtimes/interface/capability.h"

namespace headroom::ir {

std::string to_text(Capability capability) {
  return std::to_string(capability.major) + "." + std::to_string(capability.minor);
}

namespace {

bool is_least(const DeviceTraits& device, Capability least) {
  return device.compute_major > least.major ||
         (device.compute_major == least.major && device.compute_minor >= least.minor);
}

/// "compute capability 7.5"; on AMD GPUs "gfx version 9.0 of an AMD GPU".
std::string named(const DeviceTraits& device, Capability capability) {
  return device.rocm ? "gfx version " + to_text(capability) + " of an AMD GPU"
                     : "compute capability " + to_text(capability);
}

}  // namespace

bool has_capability(const DeviceTraits& device, Capability least) {
  return device.compute_major == 0 || device.rocm || is_least(device, least);
}

Status check_capability(std::span<const CapabilityRule> rules, const ParallelPlan& plan,
                        const DeviceTraits& device) {
  for (const CapabilityRule& rule : rules) {
    const Capability least = device.rocm ? rule.least_rocm : rule.least;
    if (rule.uses(plan) && device.compute_major != 0 && !is_least(device, least)) {
      const Capability own{device.compute_major, device.compute_minor};
      const std::string_view words = device.rocm ? rule.rocm_words : rule.words;
      return Error::invalid_argument(
          std::string(rule.option), std::string(rule.what) + " on " + named(device, own),
          named(device, least) + " or later: " + std::string(words), std::string(rule.fix));
    }
  }
  return ok();
}

bool computes_in_bf16(const ParallelPlan& plan) {
  return plan.precision == Precision::kBf16 || plan.precision == Precision::kAutocastBf16 ||
         plan.precision == Precision::kBf16AutocastBf16 || plan.precision == Precision::kBf16Master;
}

std::vector<std::string> narrow_adam_notes(const ParallelPlan& plan) {
  const bool adam = plan.optimizer.kind == OptimizerKind::kAdamW;
  if (plan.precision != Precision::kFp16 || plan.lora || !adam || plan.workload.generation) {
    return {};
  }
  return {
      "with fp16 weights alone, AdamW usually diverges: its epsilon of 1e-8 is 0 in fp16, and "
      "nothing scales the loss; --precision autocast-fp16 keeps fp32 weights"};
}

std::vector<std::string> precision_notes(const ParallelPlan& plan, const DeviceTraits& device,
                                         std::string_view fp16) {
  if (plan.precision == Precision::kFp16) {
    return narrow_adam_notes(plan);
  }
  if (!computes_in_bf16(plan) || has_capability(device, {8, 0})) {
    return {};
  }
  return {
      "PyTorch emulates bf16 below compute capability 8.0: tensor cores do not compute it, and "
      "no fused attention kernel takes it, so that the S x S scores are stored. Tensor cores take "
      "fp16, and so does fused attention where each head has its own keys: " +
      std::string(fp16)};
}

}  // namespace headroom::ir
