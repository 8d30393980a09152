#pragma once

#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/torch/tensor.h"
#include "model_ir/runtime/transformers/attention.h"
#include "model_ir/spec/model_spec.h"

/// Liger's kernels in the place of transformers' modules (apply_liger_kernel_to_*): one kernel
/// each, which keeps its inputs and writes gradients over what it is given. Source:
/// linkedin/Liger-Kernel 0.8.5 src/liger_kernel/ops/{rms_norm,swiglu,rope}.py; triton
///         backend.
namespace headroom::ir::transformers {

/// Why these kernels, as far as they are modelled, do not serve a model; nothing if they do.
[[nodiscard]] std::optional<Error> liger_trouble(const ModelSpec& spec);

/// LigerRMSNorm: keeps its input and a factor per row. The weight's gradient is summed up per
/// multiprocessor first.
[[nodiscard]] torch::Tensor liger_rms_norm(torch::Eager& eager, const torch::Tensor& input,
                                           const torch::Tensor& weight);

/// silu(gate) * up. Backward writes the gradients over gate and up.
[[nodiscard]] torch::Tensor liger_silu_mul(torch::Eager& eager, const torch::Tensor& gate,
                                           const torch::Tensor& up);

/// Rotates queries and keys where they lie, and their gradients too.
[[nodiscard]] QueryKey liger_rope(torch::Eager& eager, const QueryKey& heads,
                                  const RopeTable& table);

}  // namespace headroom::ir::transformers
