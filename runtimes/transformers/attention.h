#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// [B, S, A*D] viewed as [B, A, S, D]; a tensor that is already split is unchanged.
[[nodiscard]] torch::Tensor split(torch::Eager& eager, const torch::Tensor& input,
                                  std::int64_t head_dim);

/// x * cos + rotate_half(x) * sin.
[[nodiscard]] torch::Tensor rotate(torch::Eager& eager, const torch::Tensor& x,
                                   const torch::Tensor& cos, const torch::Tensor& sin);

struct QueryKey {
  torch::Tensor q;  ///< [B, A, S, D]
  torch::Tensor k;  ///< [B, K, S, D]
};

struct RopeTable {
  torch::Tensor cos, sin;  ///< [1, S, rotated D]
};

/// Rotary position embedding as in the family's attention. `frame` gets the tensors for which the
/// attention module has names.
[[nodiscard]] QueryKey apply_rope(torch::Eager& eager, const ModelSpec& spec, const QueryKey& heads,
                                  const RopeTable& table, std::vector<torch::Tensor>& frame);

struct AttentionInput {
  torch::Tensor q, k, v;  ///< [B, A, S, D], [B, K, S, D]
  torch::Tensor mask;     ///< Boolean or additive [.., 1, S, S]; undefined: causal by flag.
  torch::Tensor alibi;    ///< [B*A, 1, S]
  torch::Tensor bias;     ///< T5: [1, A, S, S'], added to the scores.
  bool causal = true;
  torch::Tensor sinks;        ///< [A]; only gpt-oss.
  bool casts_weights = true;  ///< With sinks: weights get the type of the values (not in 4.x).
  double dropout = 0;
};

struct AttentionOutput {
  torch::Tensor output;   ///< [B, S, A*D]
  torch::Tensor weights;  ///< Returned by eager attention and kept in the layer's frame.
};

/// The attention function that the plan selects. `frame` gets the tensors for which the attention
/// module has names.
/// Source: huggingface/transformers integrations/sdpa_attention.py and the families'
/// eager_attention_forward.
[[nodiscard]] AttentionOutput attention(torch::Eager& eager, const Model& model,
                                        const AttentionInput& input,
                                        std::vector<torch::Tensor>& frame);

}  // namespace headroom::ir::transformers
