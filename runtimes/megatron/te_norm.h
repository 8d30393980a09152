#pragma once

#include <cstdint>

#include "runtimes/megatron/fp8_tensor.h"
#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// Edges of the autograd node of a norm with its linear layer, in the order of their inputs.
struct NormLinearEdge {
  enum : std::uint8_t { kInput, kNormWeight, kNormBias, kWeight, kBias, kCount };
};

/// What a norm's kernel returns; without a mean for RMSNorm.
struct NormOutput {
  torch::Tensor output;
  torch::Tensor mean;       ///< fp32 [T]
  torch::Tensor deviation;  ///< fp32 [T], inverse.
};
struct NormGradients {
  torch::Tensor input;
  torch::Tensor weight;
  torch::Tensor bias;
};

/// What a norm's kernel returns where products in 8 bits follow.
struct Fp8NormOutput {
  Fp8Tensor output;
  torch::Tensor mean;
  torch::Tensor deviation;
};

/// The kernels of csrc/extensions/normalization.cpp, outside autograd.
[[nodiscard]] NormOutput norm_forward(const Runner& run, const torch::Tensor& input,
                                      const NormWeights& weights);
/// Delayed scaling lets the kernel write 8 bits; for the others its result, of which it can find
/// the largest value, is cast and goes.
[[nodiscard]] Fp8NormOutput norm_forward_fp8(const Runner& run, const torch::Tensor& input,
                                             const NormWeights& weights, Fp8Use use,
                                             Fp8Operand operand);
[[nodiscard]] NormGradients norm_backward(const Runner& run, const torch::Tensor& input,
                                          bool with_bias);

}  // namespace headroom::ir::megatron
