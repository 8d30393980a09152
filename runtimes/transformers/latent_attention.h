#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/attention.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// Tensors that the frame of a latent attention module holds between its operators.
struct LatentFrame {
  torch::Tensor query;       ///< [B, A, S, nope + rope], as projected.
  torch::Tensor query_nope;  ///< Views of `query`.
  torch::Tensor query_rope;
  torch::Tensor key_rope;  ///< [B, 1, S, rope], from the compressed keys and values.
  torch::Tensor normed;    ///< The normalised latents.
};

/// Projected queries [B, S, A * (nope + rope)] as heads, split in two.
[[nodiscard]] LatentFrame cut_query(torch::Eager& eager, const ModelSpec& spec,
                                    const torch::Tensor& projected);

/// Splits the compressed keys and values [B, S, rank + rope]: returns the latent part and puts the
/// rotary part into `frame`.
[[nodiscard]] torch::Tensor cut_compressed(torch::Eager& eager, const LatentAttention& latent,
                                           const torch::Tensor& compressed, LatentFrame& frame);

/// Rotates the rotary parts of the queries and of the single key.
/// Source: modeling_deepseek_v2.py, apply_rotary_emb; modeling_deepseek_v3.py,
///         apply_rotary_pos_emb_interleave and apply_rotary_pos_emb.
void rotate_latent(torch::Eager& eager, const Model& model, const RopeTable& table,
                   LatentFrame& frame);
/// Concatenates the two parts of the queries.
[[nodiscard]] torch::Tensor join_query(torch::Eager& eager, const LatentFrame& frame);

struct KeyValue {
  torch::Tensor key;    ///< [B, A, S, nope + rope]
  torch::Tensor value;  ///< [B, A, S, v], a view of the expanded latents.
};

/// Splits the expanded latents [B, S, A * (nope + v)]; the key's rotated part follows later.
[[nodiscard]] KeyValue cut_expanded(torch::Eager& eager, const ModelSpec& spec,
                                    const torch::Tensor& expanded);

/// `expand_kv`: the expanded latents [B, S, A * (nope + v)] as keys and values, the rotated key
/// copied to all heads.
[[nodiscard]] KeyValue expand_latent(torch::Eager& eager, const ModelSpec& spec,
                                     const torch::Tensor& expanded, const torch::Tensor& key_rope);

/// exp(i * angle) of each position and frequency, as complex numbers: [1, S, rope].
/// Source: modeling_deepseek_v2.py, DeepseekV2RotaryEmbedding.forward.
[[nodiscard]] torch::Tensor complex_rope_table(torch::Eager& eager, std::int64_t dim,
                                               std::int64_t sequence);

}  // namespace headroom::ir::transformers
