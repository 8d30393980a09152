#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// [B, S, A*D] seen as [B, A, S, D]; what is split already stays.
[[nodiscard]] torch::Tensor split(torch::Eager& eager, const torch::Tensor& input,
                                  std::int64_t head_dim);

/// Rotary position embedding of one tensor [B, A, S, D], as the family's apply_rotary_pos_emb.
[[nodiscard]] torch::Tensor apply_rope(torch::Eager& eager, const ModelSpec& spec,
                                       const torch::Tensor& x, const torch::Tensor& cos,
                                       const torch::Tensor& sin);

struct AttentionInput {
  torch::Tensor q, k, v;  ///< [B, A, S, D], [B, K, S, D]
  torch::Tensor mask;     ///< Additive [1, 1, S, S]; undefined: causal by flag.
  double dropout = 0;
};

struct AttentionOutput {
  torch::Tensor output;   ///< [B, S, A*D]
  torch::Tensor weights;  ///< Eager attention returns them, and the layer's frame holds them.
};

/// The attention function that `plan` selects.
/// Source: huggingface/transformers integrations/sdpa_attention.py and the families'
/// eager_attention_forward.
[[nodiscard]] AttentionOutput attention(torch::Eager& eager, const ParallelPlan& plan,
                                        const ModelSpec& spec, const AttentionInput& input);

}  // namespace headroom::ir::transformers
