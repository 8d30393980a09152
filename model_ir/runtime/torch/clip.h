#pragma once

#include <span>

#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/torch/tensor.h"

namespace headroom::ir::torch {

/// `torch.nn.utils.clip_grad_norm_(parameters, max_norm)`, its result dropped: what it allocates
/// and frees. Gradients are scaled in place, whatever their norm.
///
/// Model:  per type a norm per gradient (list kernels), stacked; one norm of those; the factor.
/// Source: pytorch/pytorch 2.11 torch/nn/utils/clip_grad.py;
///         aten/src/ATen/native/cuda/ForeachReduceOp.cu, foreach_tensor_norm_cuda.
void clip_grad_norm(Eager& eager, std::span<const Tensor> parameters);

}  // namespace headroom::ir::torch
