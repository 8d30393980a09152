#pragma once

#include <cstdint>
#include <span>

#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/torch/tensor.h"

namespace headroom::ir::torch {

/// `torch.nn.utils.clip_grad_norm_(parameters, max_norm)`, its result dropped: what it allocates
/// and frees. Gradients are scaled in place, whatever their norm.
///
/// Model:  per type a norm per gradient (list kernels), stacked; one norm of those; the factor.
///         `sharded_ranks`: the parameters are shards (DTensor) on as many ranks; the norms of
///         shards are added up among them. 1: they are whole.
/// Source: pytorch/pytorch 2.11 torch/nn/utils/clip_grad.py;
///         aten/src/ATen/native/cuda/ForeachReduceOp.cu, foreach_tensor_norm_cuda;
///         torch/distributed/tensor/_ops/_math_ops.py, _NormPartial.
void clip_grad_norm(Eager& eager, std::span<const Tensor> parameters,
                    std::int64_t sharded_ranks = 1);

}  // namespace headroom::ir::torch
