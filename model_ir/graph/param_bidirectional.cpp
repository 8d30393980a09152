#include <cstdint>
#include <string>

#include "model_ir/base/check.h"
#include "model_ir/graph/param_writer.h"

namespace headroom::ir {
namespace {

void write_bert_layer(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const std::int64_t hidden = model.hidden;
  const LinearSize projection{hidden, model.heads * model.head_dim, model.qkv_bias};
  writer.set_module(Module::kAttention);
  writer.linear(OpRole::kQuery, "attention.self.query", projection);
  writer.linear(OpRole::kKey, "attention.self.key", projection);
  writer.linear(OpRole::kValue, "attention.self.value", projection);
  writer.linear(OpRole::kAttentionOutput, "attention.output.dense",
                {hidden, hidden, model.output_bias});
  writer.norm(OpRole::kAttentionOutNorm, "attention.output.LayerNorm", hidden);
  writer.set_module(Module::kMlp);
  writer.linear(OpRole::kUp, "intermediate.dense", {hidden, model.ffn, model.mlp_bias});
  writer.linear(OpRole::kDown, "output.dense", {model.ffn, hidden, model.mlp_bias});
  writer.norm(OpRole::kMlpOutNorm, "output.LayerNorm", hidden);
}

void write_bert_head(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  writer.set_module(Module::kHead);
  writer.bare(OpRole::kHead, "cls.predictions.bias", {model.vocabulary}, ParameterPart::kBias);
  if (!model.tied_embeddings) {
    writer.mark_last_unused();  // The decoder then has its own bias.
  }
  writer.linear(OpRole::kHeadDense, "cls.predictions.transform.dense",
                {model.hidden, model.hidden, true});
  writer.norm(OpRole::kHeadDenseNorm, "cls.predictions.transform.LayerNorm", model.hidden);
  if (!model.tied_embeddings) {
    writer.linear(OpRole::kHead, "cls.predictions.decoder", {model.hidden, model.vocabulary, true});
  }
}

void write_t5_attention(ParameterWriter& writer, const std::string& name) {
  const ModelSpec& model = writer.model();
  const std::int64_t width = model.heads * model.head_dim;
  writer.linear(OpRole::kQuery, name + ".q", {model.hidden, width});
  writer.linear(OpRole::kKey, name + ".k", {model.hidden, width});
  writer.linear(OpRole::kValue, name + ".v", {model.hidden, width});
  writer.linear(OpRole::kAttentionOutput, name + ".o", {width, model.hidden});
}

void write_t5_mlp(ParameterWriter& writer, const std::string& name) {
  const ModelSpec& model = writer.model();
  const std::string dense = name + "DenseReluDense.";
  writer.set_module(Module::kMlp);
  if (model.gated_mlp) {
    writer.linear(OpRole::kGate, dense + "wi_0", {model.hidden, model.ffn});
    writer.linear(OpRole::kUp, dense + "wi_1", {model.hidden, model.ffn});
  } else {
    writer.linear(OpRole::kUp, dense + "wi", {model.hidden, model.ffn});
  }
  writer.linear(OpRole::kDown, dense + "wo", {model.ffn, model.hidden});
  writer.set_module(Module::kNone);
  writer.norm(OpRole::kMlpNorm, name + "layer_norm", model.hidden);
}

void write_t5_self_attention(ParameterWriter& writer, LayerPlace place) {
  const ModelSpec& model = writer.model();
  writer.set_module(Module::kAttention);
  write_t5_attention(writer, "layer.0.SelfAttention");
  if (place.in_stack == 0) {
    writer.weight(OpRole::kRelativeBias, "layer.0.SelfAttention.relative_attention_bias",
                  {model.relative_buckets, model.heads});
  }
  writer.set_module(Module::kNone);
  writer.norm(OpRole::kAttentionNorm, "layer.0.layer_norm", model.hidden);
}

void write_t5_cross_attention(ParameterWriter& writer) {
  writer.set_module(Module::kCrossAttention);
  write_t5_attention(writer, "layer.1.EncDecAttention");
  writer.set_module(Module::kNone);
  writer.norm(OpRole::kCrossAttentionNorm, "layer.1.layer_norm", writer.model().hidden);
}

}  // namespace

void write_bert(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const std::int64_t hidden = model.hidden;
  writer.embedding(OpRole::kTokenEmbedding, "bert.embeddings.word_embeddings", model.vocabulary,
                   hidden);
  writer.embedding(OpRole::kPositionTable, "bert.embeddings.position_embeddings",
                   model.position_rows, hidden);
  writer.embedding(OpRole::kTokenTypeTable, "bert.embeddings.token_type_embeddings",
                   model.token_types, hidden);
  writer.norm(OpRole::kEmbeddingNorm, "bert.embeddings.LayerNorm", hidden);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    writer.enter_layer("bert.encoder.layer.",
                       {static_cast<std::int64_t>(i), static_cast<std::int32_t>(i)});
    write_bert_layer(writer);
  }
  writer.leave_layer();
  if (!writer.classifier()) {
    write_bert_head(writer);
  }
}

void write_t5(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  HEADROOM_ASSERT(model.encoder.has_value());
  writer.embedding(OpRole::kTokenEmbedding, "shared", model.vocabulary, model.hidden);
  std::int32_t layer = 0;
  for (std::int64_t i = 0; i < model.encoder->layers; ++i, ++layer) {
    writer.enter_layer("encoder.block.", {i, layer});
    write_t5_self_attention(writer, {i, layer});
    write_t5_mlp(writer, "layer.1.");
  }
  writer.leave_layer();
  writer.norm(OpRole::kEncoderFinalNorm, "encoder.final_layer_norm", model.hidden);
  for (std::size_t i = 0; i < model.layers.size(); ++i, ++layer) {
    const LayerPlace place{static_cast<std::int64_t>(i), layer};
    writer.enter_layer("decoder.block.", place);
    write_t5_self_attention(writer, place);
    write_t5_cross_attention(writer);
    write_t5_mlp(writer, "layer.2.");
  }
  writer.leave_layer();
  writer.norm(OpRole::kFinalNorm, "decoder.final_layer_norm", model.hidden);
  if (!model.tied_embeddings) {
    writer.set_module(Module::kHead);
    writer.linear(OpRole::kHead, "lm_head", {model.hidden, model.vocabulary});
  }
}

}  // namespace headroom::ir
