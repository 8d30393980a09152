#pragma once

#include <vector>

#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// load_balancing_loss_func: how evenly the routers distribute tokens. `logits` are [T, E] of each
/// sparse layer, `padding` is [B, S] or undefined. Returns a scalar.
///
/// Model:  a layer's probabilities [T, E] in the logits' type (fp32 under autocast) are saved for
///         backward, which makes the gradients of all layers' logits before it runs any layer.
/// Source: huggingface/transformers 5.17 models/mixtral/modeling_mixtral.py,
///         load_balancing_loss_func (the same in Qwen2-MoE, Qwen3-MoE and gpt-oss).
[[nodiscard]] torch::Tensor load_balancing_loss(torch::Eager& eager, const MoeSpec& moe,
                                                const std::vector<torch::Tensor>& logits,
                                                const torch::Tensor& padding);

}  // namespace headroom::ir::transformers
