#pragma once

#include "runtimes/megatron/transformer_engine.h"

/// Transformer Engine's linear layers with operands in 8 bits.
/// Source: NVIDIA/TransformerEngine 2.11, pytorch/module/{linear,layernorm_linear,base}.py.
namespace headroom::ir::megatron {

/// LayerNormLinear: the norm writes 8 bits, of which backward keeps the columns, or, under sequence
/// parallelism with one scale for the tensor, this rank's rows.
[[nodiscard]] torch::Tensor fp8_norm_linear(const Runner& run, const torch::Tensor& input,
                                            const NormWeights& norm, const LinearWeights& linear);

/// Linear without a bias.
[[nodiscard]] torch::Tensor fp8_linear(const Runner& run, const torch::Tensor& input,
                                       const torch::Tensor& weight, Cut cut, KeptInput kept);

}  // namespace headroom::ir::megatron
