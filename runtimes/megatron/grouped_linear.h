#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// GroupedLinear: one product per expert, which also adds the expert's bias from `biases`. `kept`
/// matters only under FP8.
/// Source: transformer_engine/pytorch/module/grouped_linear.py.
[[nodiscard]] torch::Tensor grouped_linear(const Runner& run, const torch::Tensor& input,
                                           const std::vector<torch::Tensor>& weights,
                                           KeptInput kept = KeptInput::kCast,
                                           const std::vector<torch::Tensor>& biases = {});

/// Fp8Padding and Fp8Unpadding: pad the rows of each expert to whole blocks of scales, and remove
/// the padding. Returns `input` itself if no expert needs padding.
/// Source: transformer_engine/pytorch/module/{fp8_padding,fp8_unpadding}.py.
[[nodiscard]] torch::Tensor pad_experts(const Runner& run, const torch::Tensor& input,
                                        std::size_t count);
[[nodiscard]] torch::Tensor unpad_experts(const Runner& run, const torch::Tensor& padded,
                                          std::int64_t rows);

}  // namespace headroom::ir::megatron
