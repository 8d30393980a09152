#pragma once

#include <vector>

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// GroupedLinear with FP8 operands. Tensors with block scales lie in one buffer for all experts.
/// Source: NVIDIA/TransformerEngine 2.11, pytorch/module/grouped_linear.py;
///         pytorch/csrc/extensions/cast.cpp, split_quantize.
[[nodiscard]] torch::Tensor fp8_grouped_linear(const Runner& run, const torch::Tensor& input,
                                               const std::vector<torch::Tensor>& weights,
                                               KeptInput kept);

}  // namespace headroom::ir::megatron
