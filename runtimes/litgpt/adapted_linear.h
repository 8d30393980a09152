#pragma once

#include "runtimes/litgpt/model.h"

namespace headroom::ir::litgpt {

/// LoRALinear: the output of the layer plus that of its adapter.
[[nodiscard]] torch::Tensor apply_linear(torch::Eager& eager, const Model& model,
                                         const Linear& layer, const torch::Tensor& x);

/// LoRAQKVLinear: lora_B is a convolution over the positions, with a group or a call for each part.
/// Its output is copied into the columns of a tensor as wide as the layer's output. Parts without
/// an adapter are zeros.
///
/// Shapes: x [B, T, H] to [B, T, (A + 2K) D].
[[nodiscard]] torch::Tensor apply_fused(torch::Eager& eager, const Model& model,
                                        const FusedLinear& layer, const torch::Tensor& x);

}  // namespace headroom::ir::litgpt
