#include <cstdint>
#include <optional>

#include "model_ir/base/check.h"
#include "model_ir/graph/sublayers.h"

namespace headroom::ir {
namespace {

/// One of the two stacks of T5.
struct StackForm {
  std::int64_t layers;
  std::int32_t first;              ///< Number of its first layer in the model.
  std::optional<TensorId> memory;  ///< The encoder's output, which a decoder attends to.
  OpRole final_norm;
};

/// Norm, attention, dropout, addition: T5LayerSelfAttention and T5LayerCrossAttention.
TensorId attend(GraphBuilder& builder, const AttentionForm& form, TensorId hidden) {
  const OpRole role = form.memory ? OpRole::kCrossAttentionNorm : OpRole::kAttentionNorm;
  const TensorId normed = builder.norm(role, hidden);
  builder.enter(form.memory ? Module::kCrossAttention : Module::kAttention);
  const TensorId value = build_attention(builder, form, normed);
  builder.leave();
  return builder.add_residual(hidden, builder.dropout(value, builder.model().dropout.residual));
}

TensorId feed_forward(GraphBuilder& builder, TensorId hidden) {
  const TensorId normed = builder.norm(OpRole::kMlpNorm, hidden);
  builder.enter(Module::kMlp);
  const TensorId value = build_mlp(builder, LayerSpec{}, normed);
  builder.leave();
  return builder.add_residual(hidden, builder.dropout(value, builder.model().dropout.residual));
}

TensorId build_stack(GraphBuilder& builder, const StackForm& stack, TensorId hidden) {
  const double dropout = builder.model().dropout.embedding;
  const bool decodes = stack.memory.has_value();
  hidden = builder.dropout(hidden, dropout);
  AttentionForm self{.window = {}, .causal = decodes, .memory = {}, .relative_bias = {}};
  const AttentionForm cross{
      .window = {}, .causal = false, .memory = stack.memory, .relative_bias = {}};
  for (std::int64_t i = 0; i < stack.layers; ++i) {
    builder.begin_layer(stack.first + static_cast<std::int32_t>(i), hidden);
    if (i == 0) {  // The other layers receive what this one computed from its table.
      self.relative_bias = builder.parameters(OpRole::kRelativeBias).at(0);
    }
    hidden = attend(builder, self, hidden);
    if (decodes) {
      hidden = attend(builder, cross, hidden);
    }
    hidden = feed_forward(builder, hidden);
    builder.end_layer(hidden);
  }
  return builder.dropout(builder.norm(stack.final_norm, hidden), dropout);
}

}  // namespace

TensorId build_encoder_decoder(GraphBuilder& builder, TensorId embedding) {
  const ModelSpec& model = builder.model();
  HEADROOM_ASSERT(model.encoder.has_value());
  const StackForm encoder{.layers = model.encoder->layers,
                          .first = 0,
                          .memory = {},
                          .final_norm = OpRole::kEncoderFinalNorm};
  const TensorId encoded = build_stack(
      builder, encoder, build_embedding(builder, builder.input("input_ids"), embedding));
  const StackForm decoder{.layers = static_cast<std::int64_t>(model.layers.size()),
                          .first = static_cast<std::int32_t>(model.encoder->layers),
                          .memory = encoded,
                          .final_norm = OpRole::kFinalNorm};
  const TensorId ids = builder.input("decoder_input_ids");
  return build_stack(builder, decoder, build_embedding(builder, ids, embedding));
}

}  // namespace headroom::ir
