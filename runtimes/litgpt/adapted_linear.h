#pragma once

#include "runtimes/litgpt/model.h"

namespace headroom::ir::litgpt {

/// LoRALinear: the layer, and what its adapter adds to it.
[[nodiscard]] torch::Tensor apply_linear(torch::Eager& eager, const Model& model,
                                         const Linear& layer, const torch::Tensor& x);

/// LoRAQKVLinear: lora_B is a convolution over the positions, a group or a call for each part; what
/// it gives is spread over the columns of a tensor as wide as the layer's output, with zeros in the
/// parts without an adapter.
///
/// Shapes: x [B, T, H] to [B, T, (A + 2K) D].
[[nodiscard]] torch::Tensor apply_fused(torch::Eager& eager, const Model& model,
                                        const FusedLinear& layer, const torch::Tensor& x);

}  // namespace headroom::ir::litgpt
