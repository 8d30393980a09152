#pragma once

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

/// Functions that Megatron-Core compiles: one kernel each way, nothing in between.
/// Source: megatron/core/fusions.
namespace headroom::ir::megatron {

/// residual + dropout(input + bias). `bias` may be undefined.
[[nodiscard]] torch::Tensor bias_dropout_add(const Runner& run, const torch::Tensor& input,
                                             const torch::Tensor& bias,
                                             const torch::Tensor& residual, double dropout);
/// SiLU of the first half times the second: [T, 2F] -> [T, F]. Keeps its input.
[[nodiscard]] torch::Tensor swiglu(const Runner& run, const torch::Tensor& input);
/// The same with a bias added first.
[[nodiscard]] torch::Tensor bias_swiglu(const Runner& run, const torch::Tensor& input,
                                        const torch::Tensor& bias);
/// A gated activation times the row's probability, [R, 2F] -> [R, F]: weighted_bias_swiglu_impl, or
/// WeightedQuickGeGLUFunction, which keeps `offset`, a tensor of one element, as well.
[[nodiscard]] torch::Tensor weighted_gate(const Runner& run, const torch::Tensor& input,
                                          const torch::Tensor& probabilities,
                                          const torch::Tensor& offset = {});
/// GELU (tanh) of input + bias. Keeps both.
[[nodiscard]] torch::Tensor bias_gelu(const Runner& run, const torch::Tensor& input,
                                      const torch::Tensor& bias);

}  // namespace headroom::ir::megatron
