#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// How parameters that are DTensors lie among ranks.
struct NormMesh {
  std::int64_t ranks = 1;          ///< That share them as FSDP does; 1: they are whole.
  std::int64_t tensor_ranks = 1;   ///< Of a second, tensor-parallel dimension of the mesh.
  std::vector<bool> replicated{};  ///< By parameter: the same on all tensor-parallel ranks.
  std::int64_t third_ranks = 1;    ///< Of a third dimension.
};

/// `torch.nn.utils.clip_grad_norm_(parameters, max_norm)`: what it allocates and frees. Gradients
/// are scaled in place, whatever their norm. Returns the norm; undefined without gradients.
///
/// Model:  per type a norm per gradient (list kernels), stacked; one norm of those; the factor.
///         Norms of shards are added up among the ranks of each dimension; those that all ranks of
///         a dimension have alike are divided by their number before they are stacked.
/// Source: pytorch/pytorch 2.11 torch/nn/utils/clip_grad.py;
///         aten/src/ATen/native/cuda/ForeachReduceOp.cu, foreach_tensor_norm_cuda;
///         torch/distributed/tensor/_ops/_math_ops.py, _NormPartial.
Tensor clip_grad_norm(Eager& eager, std::span<const Tensor> parameters, const NormMesh& mesh = {});

/// Gradients that one norm is made of, and how they lie among ranks.
struct NormGroup {
  std::vector<Tensor> parameters;
  NormMesh mesh{};
};
/// The same over several groups, whose norms are squared and added up; each group is scaled by
/// itself. Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/utils.py,
/// _clip_grad_norm_with_ep.
Tensor clip_grad_norm(Eager& eager, std::span<const NormGroup> groups);

/// The norm of each tensor, side by side: torch.stack(torch._foreach_norm(tensors)). Requires one
/// tensor or more.
[[nodiscard]] Tensor stacked_norms(Eager& eager, std::span<const Tensor> tensors);

}  // namespace headroom::ir::torch
