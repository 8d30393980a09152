#pragma once

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

/// Functions that Megatron-Core compiles: one kernel in forward and one in backward, without
/// intermediate tensors.
/// Source: megatron/core/fusions.
namespace headroom::ir::megatron {

/// residual + dropout(input + bias). `bias` may be undefined.
[[nodiscard]] torch::Tensor bias_dropout_add(const Runner& run, const torch::Tensor& input,
                                             const torch::Tensor& bias,
                                             const torch::Tensor& residual, double dropout);
/// SiLU of the first half times the second half: [T, 2F] -> [T, F]. Saves its input.
[[nodiscard]] torch::Tensor swiglu(const Runner& run, const torch::Tensor& input);
/// The same, but adds a bias first.
[[nodiscard]] torch::Tensor bias_swiglu(const Runner& run, const torch::Tensor& input,
                                        const torch::Tensor& bias);
/// A gated activation times the row's probability, [R, 2F] -> [R, F]: weighted_bias_swiglu_impl, or
/// WeightedQuickGeGLUFunction, which also saves `offset`, a tensor of one element.
[[nodiscard]] torch::Tensor weighted_gate(const Runner& run, const torch::Tensor& input,
                                          const torch::Tensor& probabilities,
                                          const torch::Tensor& offset = {});
/// GELU (tanh) of input + bias. Saves both.
[[nodiscard]] torch::Tensor bias_gelu(const Runner& run, const torch::Tensor& input,
                                      const torch::Tensor& bias);

}  // namespace headroom::ir::megatron
