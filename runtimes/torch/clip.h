#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// How parameters that are DTensors are distributed over ranks.
struct NormMesh {
  std::int64_t ranks = 1;          ///< Ranks that shard them, as FSDP does; 1: not sharded.
  std::int64_t tensor_ranks = 1;   ///< Ranks of a second, tensor-parallel dimension of the mesh.
  std::vector<bool> replicated{};  ///< By parameter: replicated on all tensor-parallel ranks.
  std::int64_t third_ranks = 1;    ///< Ranks of a third dimension.
};

/// The allocations and frees of `torch.nn.utils.clip_grad_norm_(parameters, max_norm)`. Gradients
/// are scaled in place, whatever their norm. Returns the norm; undefined without gradients.
///
/// Model:  for each type, one norm per gradient (list kernels), stacked; then one norm of those;
///         then the factor. Norms of shards are summed over the ranks of each dimension; norms that
///         all ranks of a dimension share are divided by the number of ranks before they are
///         stacked.
/// Source: pytorch/pytorch 2.11 torch/nn/utils/clip_grad.py;
///         aten/src/ATen/native/cuda/ForeachReduceOp.cu, foreach_tensor_norm_cuda;
///         torch/distributed/tensor/_ops/_math_ops.py, _NormPartial.
Tensor clip_grad_norm(Eager& eager, std::span<const Tensor> parameters, const NormMesh& mesh = {});

/// Gradients that share one norm, and how they are distributed over ranks.
struct NormGroup {
  std::vector<Tensor> parameters;
  NormMesh mesh{};
};
/// The same over several groups, whose norms are squared and added up. Each group is scaled
/// separately. Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/utils.py,
/// _clip_grad_norm_with_ep.
Tensor clip_grad_norm(Eager& eager, std::span<const NormGroup> groups);

/// The norm of each tensor, stacked in one tensor: torch.stack(torch._foreach_norm(tensors)).
/// Requires at least one tensor.
[[nodiscard]] Tensor stacked_norms(Eager& eager, std::span<const Tensor> tensors);

}  // namespace headroom::ir::torch
