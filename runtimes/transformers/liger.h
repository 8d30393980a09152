#pragma once

#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/attention.h"

/// Liger's kernels, which replace transformers' modules (apply_liger_kernel_to_*): one kernel each,
/// which saves its inputs and writes gradients over its arguments. Source: linkedin/Liger-Kernel
/// 0.8.5 src/liger_kernel/ops/{rms_norm,swiglu,geglu,rope}.py and
///         transformers/monkey_patch.py; triton backend.
namespace headroom::ir::transformers {

/// Why these kernels, as far as they are modelled, do not support a model; nothing if they do.
[[nodiscard]] std::optional<Error> liger_trouble(const ModelSpec& spec);

/// LigerRMSNorm: saves its input, made contiguous, and a factor per row. The weight's gradient is
/// first summed per multiprocessor. `in_place`: the input's gradient overwrites the output's.
[[nodiscard]] torch::Tensor liger_rms_norm(torch::Eager& eager, const torch::Tensor& input,
                                           const torch::Tensor& weight, bool in_place);

/// Memory layout of the operands.
enum class LigerOperands : bool {
  kWhole,
  kParts,  ///< Parts of a fused projection's output, which are copied first.
};

[[nodiscard]] inline LigerOperands parts_if(bool fused) {
  return fused ? LigerOperands::kParts : LigerOperands::kWhole;
}

/// act(gate) * up, SiLU or GELU. Backward writes the gradients over gate and up.
[[nodiscard]] torch::Tensor liger_gate(torch::Eager& eager, const torch::Tensor& gate,
                                       const torch::Tensor& up, LigerOperands operands);

/// Rotates queries and keys, and their gradients, in place if their memory order is [B, S, A, D];
/// otherwise copies of them.
[[nodiscard]] QueryKey liger_rope(torch::Eager& eager, const QueryKey& heads,
                                  const RopeTable& table, LigerOperands operands);

}  // namespace headroom::ir::transformers
