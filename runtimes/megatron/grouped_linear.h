#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// GroupedLinear: one product per expert. `kept` is of no matter outside fp8; `biases`, of each
/// expert, are added by the products.
/// Source: transformer_engine/pytorch/module/grouped_linear.py.
[[nodiscard]] torch::Tensor grouped_linear(const Runner& run, const torch::Tensor& input,
                                           const std::vector<torch::Tensor>& weights,
                                           KeptInput kept = KeptInput::kCast,
                                           const std::vector<torch::Tensor>& biases = {});

/// Fp8Padding and Fp8Unpadding: rows of each expert filled up to whole blocks of scales, and the
/// way back. `input` itself where no expert has any to fill.
/// Source: transformer_engine/pytorch/module/{fp8_padding,fp8_unpadding}.py.
[[nodiscard]] torch::Tensor pad_experts(const Runner& run, const torch::Tensor& input,
                                        std::size_t count);
[[nodiscard]] torch::Tensor unpad_experts(const Runner& run, const torch::Tensor& padded,
                                          std::int64_t rows);

}  // namespace headroom::ir::megatron
