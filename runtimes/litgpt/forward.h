#pragma once

#include "runtimes/litgpt/model.h"

namespace headroom::ir::litgpt {

/// The logits of a micro-batch, in fp32 as Fabric converts them: one tensor, or with adapters one
/// for every 128 positions (lm_head_chunk_size).
/// Source: Lightning-AI/litgpt litgpt/model.py, GPT.forward; Lightning-AI/pytorch-lightning
///         src/lightning/fabric/plugins/precision/half.py, HalfPrecision.convert_output.
[[nodiscard]] std::vector<torch::Tensor> forward(torch::Eager& eager, const Model& model,
                                                 const torch::Tensor& ids);

/// chunked_cross_entropy of `logits` and the shifted targets, 128 rows or pieces at a time.
/// The last position is cut off `logits`.
[[nodiscard]] torch::Tensor loss(torch::Eager& eager, std::vector<torch::Tensor>& logits,
                                 const torch::Tensor& targets);

}  // namespace headroom::ir::litgpt
