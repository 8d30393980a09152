#include "model_ir/graph/decoder.h"

#include <string_view>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/graph/recorded.h"
#include "model_ir/graph/sublayers.h"

namespace headroom::ir {
namespace {

/// Adds the rows of a learned table.
TensorId add_table(GraphBuilder& builder, OpKind kind, OpRole role, TensorId hidden) {
  return builder.same_width(
      "embedded",
      {.kind = kind, .role = role, .inputs = {hidden}, .parameters = builder.parameters(role)});
}

/// From token ids to the input of the first layer.
TensorId build_stem(GraphBuilder& builder, TensorId embedding) {
  const ModelSpec& model = builder.model();
  TensorId hidden = build_embedding(builder, builder.input("input_ids"), embedding);
  if (model.scales_embedding) {
    hidden = builder.scale(OpRole::kTokenEmbedding, hidden);
  }
  if (model.embedding_dim != model.hidden) {
    hidden = builder.linear(OpRole::kProjectIn, "projected", hidden);
  }
  if (model.token_types > 0) {
    hidden = add_table(builder, OpKind::kTokenTypes, OpRole::kTokenTypeTable, hidden);
  }
  if (model.position == PositionKind::kLearned) {
    hidden = add_table(builder, OpKind::kPositions, OpRole::kPositionTable, hidden);
  }
  if (model.embedding_norm) {
    hidden = builder.norm(OpRole::kEmbeddingNorm, hidden);
  }
  return builder.dropout(hidden, model.dropout.embedding);
}

TensorId build_decoder(GraphBuilder& builder, TensorId embedding) {
  const ModelSpec& model = builder.model();
  TensorId hidden = build_stem(builder, embedding);
  std::int32_t index = 0;
  for (const LayerSpec& layer : model.layers) {
    builder.begin_layer(index, hidden);
    hidden = build_block(builder, layer, hidden);
    builder.end_layer(hidden);
    ++index;
  }
  if (model.final_norm) {
    hidden = builder.norm(OpRole::kFinalNorm, hidden);
  }
  if (model.embedding_dim != model.hidden) {
    hidden = builder.linear(OpRole::kProjectOut, "projected", hidden);
  }
  return hidden;
}

}  // namespace

TensorId build_embedding(GraphBuilder& builder, TensorId ids, TensorId embedding) {
  const TensorId hidden = builder.activation("embedded", builder.width(embedding));
  builder.add({.kind = OpKind::kEmbedding,
               .role = OpRole::kTokenEmbedding,
               .inputs = {ids},
               .parameters = {embedding},
               .outputs = {hidden}});
  return hidden;
}

Graph build_graph(const ModelSpec& model, const BatchShape& shape, ExpertWeights experts) {
  if (model.recording) {
    return recorded_graph(model, shape);
  }
  GraphBuilder builder(model, shape, experts);
  const TensorId embedding = builder.parameters(OpRole::kTokenEmbedding).at(0);
  const TensorId hidden =
      model.encoder ? build_encoder_decoder(builder, embedding) : build_decoder(builder, embedding);
  build_head(builder, hidden, embedding);
  return builder.take();
}

}  // namespace headroom::ir
