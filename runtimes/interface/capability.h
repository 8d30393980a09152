#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

/// What a plan needs of a GPU's compute capability. Each framework has a small table of these.
namespace headroom::ir {

/// Compute capability as NVIDIA writes it: 8.9 is {8, 9}.
struct Capability {
  int major = 0;
  int minor = 0;
};

/// Something that a framework refuses on GPUs below a compute capability.
struct CapabilityRule {
  std::string_view option;  ///< Option to change, without dashes.
  std::string_view what;    ///< "8-bit weights (LLM.int8())"
  bool (*uses)(const ParallelPlan& plan);
  Capability least;
  std::string_view words;  ///< What the library says or documents.
  std::string_view fix;
  /// The same for AMD GPUs, whose versions do not compare with `least`: gfx942 is {9, 4}. By
  /// default nothing is refused there.
  Capability least_rocm{};
  std::string_view rocm_words{};
};

/// "7.5".
[[nodiscard]] std::string to_text(Capability capability);

/// Whether `device` has at least `least`. GPUs of other vendors have no compute capability
/// (DeviceTraits 0.0, or `rocm`): they pass.
[[nodiscard]] bool has_capability(const DeviceTraits& device, Capability least);

/// Refuses the first rule that `plan` breaks on `device`.
/// Errors:  kInvalidArgument naming the rule's option.
[[nodiscard]] Status check_capability(std::span<const CapabilityRule> rules,
                                      const ParallelPlan& plan, const DeviceTraits& device);

/// Whether a plan stores or computes in bf16.
[[nodiscard]] bool computes_in_bf16(const ParallelPlan& plan);

/// What PyTorch does about bf16 on GPUs that cannot compute in it, and what becomes of AdamW where
/// all weights that are trained are fp16.
/// Source: pytorch/pytorch 2.11 torch/cuda/__init__.py, is_bf16_supported(including_emulation);
///         aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, which lists bf16 for fused
///         attention from compute capability 8.0 on; torch/optim/adamw.py, whose eps is 1e-8, and
///         IEEE 754 binary16, whose least number is 6e-8.
/// `fp16`: how one asks for fp16 instead.
[[nodiscard]] std::vector<std::string> precision_notes(const ParallelPlan& plan,
                                                       const DeviceTraits& device,
                                                       std::string_view fp16 = "see --precision");
/// The part of these notes that is about AdamW.
[[nodiscard]] std::vector<std::string> narrow_adam_notes(const ParallelPlan& plan);

}  // namespace headroom::ir
