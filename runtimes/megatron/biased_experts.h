#pragma once

#include <vector>

#include "runtimes/megatron/transformer_engine.h"

/// Operators of experts with biases (gpt-oss) between and after their two products.
/// Source: megatron/core/transformer/moe/experts.py, TEGroupedMLP.
namespace headroom::ir::megatron {

/// weighted_bias_quick_geglu_impl without a bias, because the product has already added it. Clamps
/// both halves of [R, 2F], concatenates them, and multiplies quick GEGLU by the row's probability:
/// [R, F].
/// Source: megatron/core/fusions/fused_bias_geglu.py.
[[nodiscard]] torch::Tensor clamped_quick_geglu(const Runner& run, const torch::Tensor& input,
                                                const torch::Tensor& probabilities);

/// _apply_bias: adds each expert's bias [H], times the row's probability, to the expert's rows of
/// [R, H]. The sum has the wider of the two types and is cast at the end.
[[nodiscard]] torch::Tensor add_expert_biases(const Runner& run, const torch::Tensor& output,
                                              const std::vector<torch::Tensor>& biases,
                                              const torch::Tensor& probabilities);

}  // namespace headroom::ir::megatron
