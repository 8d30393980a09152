#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::deepspeed {

/// The autograd function by which zero.Init replaces torch.nn.functional.linear. It keeps input,
/// weight and bias as they are, so that a weight may be partitioned between forward and backward.
///
/// Model:  forward is matmul and an in-place addition, or addmm for two dims and a bias. Backward
///         makes the gradients of input, weight and bias in this order.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/linear.py,
///         LinearFunctionForZeroStage3.
[[nodiscard]] torch::Tensor memory_efficient_linear(torch::Eager& eager, const torch::Tensor& input,
                                                    const torch::Tensor& weight,
                                                    const torch::Tensor& bias);

}  // namespace headroom::ir::deepspeed
