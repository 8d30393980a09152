#pragma once

#include "model_ir/runtime/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

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

/// The kernels of csrc/extensions/normalization.cpp, outside autograd.
[[nodiscard]] NormOutput norm_forward(const Runner& run, const torch::Tensor& input,
                                      const NormWeights& weights);
[[nodiscard]] NormGradients norm_backward(const Runner& run, const torch::Tensor& input,
                                          bool with_bias);

}  // namespace headroom::ir::megatron
