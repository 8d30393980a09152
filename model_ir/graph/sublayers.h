#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/graph/builder.h"

namespace headroom::ir {

/// How one attention differs from the others of its model.
struct AttentionForm {
  std::optional<std::int64_t> window;
  bool causal = true;
  std::optional<TensorId> memory;         ///< Source of keys and values in cross-attention.
  std::optional<TensorId> relative_bias;  ///< T5: the table of the stack's first layer.
};

/// From the attention's input to its output projection. The module is open.
[[nodiscard]] TensorId build_attention(GraphBuilder& builder, const AttentionForm& form,
                                       TensorId hidden);

/// From the MLP's input to its last projection or sum, dense or sparse. The module is open.
[[nodiscard]] TensorId build_mlp(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden);

/// One block of a decoder-only or masked model, from hidden state to hidden state.
[[nodiscard]] TensorId build_block(GraphBuilder& builder, const LayerSpec& layer, TensorId hidden);

/// Everything from the end of the (decoder's) last layer to the loss. `embedding` is the token
/// table, which a tied head reads.
void build_head(GraphBuilder& builder, TensorId hidden, TensorId embedding);

/// Everything between the inputs and the head of an encoder-decoder model. Returns the decoder's
/// output.
[[nodiscard]] TensorId build_encoder_decoder(GraphBuilder& builder, TensorId embedding);

/// Embeds ids as all models do; returns [B,S,embedding_dim].
[[nodiscard]] TensorId build_embedding(GraphBuilder& builder, TensorId ids, TensorId embedding);

}  // namespace headroom::ir
