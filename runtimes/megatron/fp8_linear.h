#pragma once

#include "runtimes/megatron/transformer_engine.h"

/// Transformer Engine's linear layers with FP8 operands.
/// Source: NVIDIA/TransformerEngine 2.11, pytorch/module/{linear,layernorm_linear,base}.py.
namespace headroom::ir::megatron {

/// LayerNormLinear. The norm writes FP8. Backward keeps the column-wise data or, under sequence
/// parallelism with one scale per tensor, this rank's row-wise data.
[[nodiscard]] torch::Tensor fp8_norm_linear(const Runner& run, const torch::Tensor& input,
                                            const NormWeights& norm, const LinearWeights& linear);

/// Linear without a bias.
[[nodiscard]] torch::Tensor fp8_linear(const Runner& run, const torch::Tensor& input,
                                       const torch::Tensor& weight, Cut cut, KeptInput kept);

}  // namespace headroom::ir::megatron
