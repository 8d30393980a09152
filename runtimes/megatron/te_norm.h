#pragma once

#include <cstdint>

#include "runtimes/megatron/fp8_tensor.h"
#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// Edges of the autograd node of a norm and its linear layer, in the order of the inputs.
struct NormLinearEdge {
  enum : std::uint8_t { kInput, kNormWeight, kNormBias, kWeight, kBias, kCount };
};

/// Results of a norm's kernel. RMSNorm has no mean.
struct NormOutput {
  torch::Tensor output;
  torch::Tensor mean;       ///< fp32 [T]
  torch::Tensor deviation;  ///< Inverse deviation, fp32 [T].
};
struct NormGradients {
  torch::Tensor input;
  torch::Tensor weight;
  torch::Tensor bias;
};

/// Results of a norm's kernel if FP8 products follow.
struct Fp8NormOutput {
  Fp8Tensor output;
  torch::Tensor mean;
  torch::Tensor deviation;
};

/// The kernels of csrc/extensions/normalization.cpp, outside autograd.
[[nodiscard]] NormOutput norm_forward(const Runner& run, const torch::Tensor& input,
                                      const NormWeights& weights);
/// With delayed scaling the kernel writes FP8. With the other recipes its result, of which it can
/// find the absolute maximum (amax), is cast and then freed.
[[nodiscard]] Fp8NormOutput norm_forward_fp8(const Runner& run, const torch::Tensor& input,
                                             const NormWeights& weights, Fp8Use use,
                                             Fp8Operand operand);
[[nodiscard]] NormGradients norm_backward(const Runner& run, const torch::Tensor& input,
                                          bool with_bias);

}  // namespace headroom::ir::megatron
