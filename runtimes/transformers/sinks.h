#pragma once

#include "runtimes/transformers/attention.h"

namespace headroom::ir::transformers {

/// gpt-oss's eager attention: a learned logit per head joins the scores before the softmax and is
/// dropped after it. Requires `input.sinks` and, for causality, a mask.
/// Source: huggingface/transformers 5.17 modeling_gpt_oss.py, eager_attention_forward.
[[nodiscard]] AttentionOutput attend_with_sinks(torch::Eager& eager, const AttentionInput& input);

/// Rotary position embedding with tables of half a head: the halves of a head, each multiplied
/// by both tables. Source: modeling_gpt_oss.py, apply_rotary_pos_emb.
[[nodiscard]] QueryKey rotate_halves(torch::Eager& eager, const QueryKey& heads,
                                     const RopeTable& table);

}  // namespace headroom::ir::transformers
