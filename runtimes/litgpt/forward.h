#pragma once

#include "runtimes/litgpt/model.h"

namespace headroom::ir::litgpt {

/// The logits of a micro-batch, which Fabric converts to fp32. The result is one tensor, or with
/// adapters one for every 128 positions (lm_head_chunk_size).
/// Source: Lightning-AI/litgpt litgpt/model.py, GPT.forward; Lightning-AI/pytorch-lightning
///         src/lightning/fabric/plugins/precision/half.py, HalfPrecision.convert_output.
[[nodiscard]] std::vector<torch::Tensor> forward(torch::Eager& eager, const Model& model,
                                                 const torch::Tensor& ids);

/// chunked_cross_entropy of `logits` and the shifted targets, with 128 rows or one piece at a time.
/// The last position of `logits` is cut off.
[[nodiscard]] torch::Tensor loss(torch::Eager& eager, std::vector<torch::Tensor>& logits,
                                 const torch::Tensor& targets);

}  // namespace headroom::ir::litgpt
