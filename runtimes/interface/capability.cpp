#include "runtimes/interface/capability.h"

namespace headroom::ir {

std::string to_text(Capability capability) {
  return std::to_string(capability.major) + "." + std::to_string(capability.minor);
}

bool has_capability(const DeviceTraits& device, Capability least) {
  return device.compute_major == 0 || device.compute_major > least.major ||
         (device.compute_major == least.major && device.compute_minor >= least.minor);
}

Status check_capability(std::span<const CapabilityRule> rules, const ParallelPlan& plan,
                        const DeviceTraits& device) {
  for (const CapabilityRule& rule : rules) {
    if (rule.uses(plan) && !has_capability(device, rule.least)) {
      const Capability own{device.compute_major, device.compute_minor};
      return Error::invalid_argument(
          std::string(rule.option),
          std::string(rule.what) + " on compute capability " + to_text(own),
          "compute capability " + to_text(rule.least) + " or later: " + std::string(rule.words),
          std::string(rule.fix));
    }
  }
  return ok();
}

bool computes_in_bf16(const ParallelPlan& plan) {
  return plan.precision == Precision::kBf16 || plan.precision == Precision::kAutocastBf16 ||
         plan.precision == Precision::kBf16AutocastBf16 || plan.precision == Precision::kBf16Master;
}

std::vector<std::string> bf16_notes(const ParallelPlan& plan, const DeviceTraits& device) {
  if (!computes_in_bf16(plan) || has_capability(device, {8, 0})) {
    return {};
  }
  return {
      "PyTorch emulates bf16 below compute capability 8.0: tensor cores do not compute it, and "
      "no fused attention kernel takes it, so that the S x S scores are stored. Tensor cores and "
      "fused attention take fp16: see --precision"};
}

}  // namespace headroom::ir
