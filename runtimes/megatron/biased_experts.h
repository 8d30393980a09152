#pragma once

#include <vector>

#include "runtimes/megatron/transformer_engine.h"

/// What experts with biases do between and behind their products: gpt-oss's.
/// Source: megatron/core/transformer/moe/experts.py, TEGroupedMLP.
namespace headroom::ir::megatron {

/// weighted_bias_quick_geglu_impl without a bias, which the product has added: both halves of
/// [R, 2F] clamped and joined again, then quick GEGLU times the row's probability, [R, F].
/// Source: megatron/core/fusions/fused_bias_geglu.py.
[[nodiscard]] torch::Tensor clamped_quick_geglu(const Runner& run, const torch::Tensor& input,
                                                const torch::Tensor& probabilities);

/// _apply_bias: the bias [H] of each expert, times the row's probability, added to its rows of
/// [R, H]; in the wider type of the two, cast at the end.
[[nodiscard]] torch::Tensor add_expert_biases(const Runner& run, const torch::Tensor& output,
                                              const std::vector<torch::Tensor>& biases,
                                              const torch::Tensor& probabilities);

}  // namespace headroom::ir::megatron
