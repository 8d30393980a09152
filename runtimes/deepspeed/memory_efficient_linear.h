#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::deepspeed {

/// What DeepSpeed puts in place of torch.nn.functional.linear under zero.Init: an autograd function
/// that keeps input, weight and bias as they are, so that a weight may be partitioned in between.
///
/// Model:  forward is matmul and an addition in place, or addmm for two dims and a bias. Backward
///         makes the gradients of input, weight and bias in this order.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/linear.py,
///         LinearFunctionForZeroStage3.
[[nodiscard]] torch::Tensor memory_efficient_linear(torch::Eager& eager, const torch::Tensor& input,
                                                    const torch::Tensor& weight,
                                                    const torch::Tensor& bias);

}  // namespace headroom::ir::deepspeed
