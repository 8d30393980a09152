#pragma once

#include "runtimes/torchtitan/layer_run.h"

namespace headroom::ir::torchtitan {

/// The logits of ids [B, S]: [B, S, V], or [B, S, V/T] if the loss is sharded. For a part of the
/// model without the embedding, `input` is the hidden state [B, S/T, H]. A part without the head
/// returns the hidden state.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/models/llama3/model/model.py, qwen3/model/model.py.
[[nodiscard]] torch::Tensor forward(Context& context, const torch::Tensor& input);

/// Without the head (_skip_lm_head): returns the head's input, [B, S, H], on every tensor-parallel
/// rank.
[[nodiscard]] torch::Tensor forward_hidden(Context& context, const torch::Tensor& ids);
/// Only the head, on a chunk [B, S', H] of its input.
[[nodiscard]] torch::Tensor apply_head(Context& context, const torch::Tensor& piece);

}  // namespace headroom::ir::torchtitan
