#include <cstdint>
#include <string>

#include "model_ir/graph/param_writer.h"

namespace headroom::ir {
namespace {

std::int64_t query_width(const ModelSpec& model) {
  return model.heads * model.head_dim;
}

std::int64_t qkv_width(const ModelSpec& model) {
  return (model.heads + 2 * model.kv_heads) * model.head_dim;
}

void write_head(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  if (!writer.classifier() && !model.tied_embeddings) {
    writer.set_module(Module::kHead);
    writer.linear(OpRole::kHead, "lm_head", {model.embedding_dim, model.vocabulary});
  }
}

/// The fused projection, the output and the plain MLP of GPT-NeoX, BLOOM and Falcon.
void write_fused_attention(ParameterWriter& writer, const std::string& module) {
  const ModelSpec& model = writer.model();
  writer.set_module(Module::kAttention);
  writer.linear(OpRole::kQkv, module + ".query_key_value",
                {model.hidden, qkv_width(model), model.qkv_bias});
  writer.linear(OpRole::kAttentionOutput, module + ".dense",
                {query_width(model), model.hidden, model.output_bias});
  writer.set_module(Module::kNone);
}

void write_four_fold_mlp(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  writer.set_module(Module::kMlp);
  writer.linear(OpRole::kUp, "mlp.dense_h_to_4h", {model.hidden, model.ffn, model.mlp_bias});
  writer.linear(OpRole::kDown, "mlp.dense_4h_to_h", {model.ffn, model.hidden, model.mlp_bias});
  writer.set_module(Module::kNone);
}

void write_falcon_norms(ParameterWriter& writer) {
  const std::int64_t width = writer.model().hidden;
  switch (writer.model().residual) {
    case ResidualForm::kParallelTwoNorms:
      writer.norm(OpRole::kAttentionNorm, "ln_attn", width);
      writer.norm(OpRole::kMlpNorm, "ln_mlp", width);
      return;
    case ResidualForm::kSequential:
      writer.norm(OpRole::kMlpNorm, "post_attention_layernorm", width);
      break;
    case ResidualForm::kParallelOneNorm:
      break;
  }
  writer.norm(OpRole::kAttentionNorm, "input_layernorm", width);
}

void write_opt_layer(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const bool before = model.norm_placement == NormPlacement::kPre;
  const LinearSize projection{model.hidden, model.hidden, model.qkv_bias};
  writer.set_module(Module::kAttention);
  writer.linear(OpRole::kKey, "self_attn.k_proj", projection);
  writer.linear(OpRole::kValue, "self_attn.v_proj", projection);
  writer.linear(OpRole::kQuery, "self_attn.q_proj", projection);
  writer.linear(OpRole::kAttentionOutput, "self_attn.out_proj",
                {model.hidden, model.hidden, model.output_bias});
  writer.set_module(Module::kNone);
  writer.norm(before ? OpRole::kAttentionNorm : OpRole::kAttentionOutNorm, "self_attn_layer_norm",
              model.hidden);
  writer.linear(OpRole::kUp, "fc1", {model.hidden, model.ffn, model.mlp_bias});
  writer.linear(OpRole::kDown, "fc2", {model.ffn, model.hidden, model.mlp_bias});
  writer.norm(before ? OpRole::kMlpNorm : OpRole::kMlpOutNorm, "final_layer_norm", model.hidden);
}

/// Calls `write` with the writer inside each layer of a decoder-only stack.
template <typename Write>
void for_each_layer(ParameterWriter& writer, const char* stack, Write write) {
  for (std::size_t i = 0; i < writer.model().layers.size(); ++i) {
    writer.enter_layer(stack, {static_cast<std::int64_t>(i), static_cast<std::int32_t>(i)});
    write();
  }
  writer.leave_layer();
}

}  // namespace

void write_gpt2(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const std::int64_t hidden = model.hidden;
  writer.embedding(OpRole::kTokenEmbedding, "transformer.wte", model.vocabulary, hidden);
  writer.embedding(OpRole::kPositionTable, "transformer.wpe", model.position_rows, hidden);
  for_each_layer(writer, "transformer.h.", [&] {
    writer.norm(OpRole::kAttentionNorm, "ln_1", hidden);
    writer.set_module(Module::kAttention);
    writer.conv1d(OpRole::kQkv, "attn.c_attn", {hidden, qkv_width(model)});
    writer.conv1d(OpRole::kAttentionOutput, "attn.c_proj", {query_width(model), hidden});
    writer.set_module(Module::kNone);
    writer.norm(OpRole::kMlpNorm, "ln_2", hidden);
    writer.set_module(Module::kMlp);
    writer.conv1d(OpRole::kUp, "mlp.c_fc", {hidden, model.ffn});
    writer.conv1d(OpRole::kDown, "mlp.c_proj", {model.ffn, hidden});
    writer.set_module(Module::kNone);
  });
  writer.norm(OpRole::kFinalNorm, "transformer.ln_f", hidden);
  write_head(writer);
}

void write_gpt_neox(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  writer.embedding(OpRole::kTokenEmbedding, "gpt_neox.embed_in", model.vocabulary, model.hidden);
  for_each_layer(writer, "gpt_neox.layers.", [&] {
    writer.norm(OpRole::kAttentionNorm, "input_layernorm", model.hidden);
    writer.norm(OpRole::kMlpNorm, "post_attention_layernorm", model.hidden);
    write_fused_attention(writer, "attention");
    write_four_fold_mlp(writer);
  });
  writer.norm(OpRole::kFinalNorm, "gpt_neox.final_layer_norm", model.hidden);
  write_head(writer);
}

void write_opt(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const std::int64_t width = model.embedding_dim;
  writer.embedding(OpRole::kTokenEmbedding, "model.decoder.embed_tokens", model.vocabulary, width);
  writer.embedding(OpRole::kPositionTable, "model.decoder.embed_positions", model.position_rows,
                   model.hidden);
  if (width != model.hidden) {
    writer.linear(OpRole::kProjectOut, "model.decoder.project_out", {model.hidden, width});
    writer.linear(OpRole::kProjectIn, "model.decoder.project_in", {width, model.hidden});
  }
  if (model.final_norm) {
    writer.norm(OpRole::kFinalNorm, "model.decoder.final_layer_norm", model.hidden);
  }
  for_each_layer(writer, "model.decoder.layers.", [&] { write_opt_layer(writer); });
  write_head(writer);
}

void write_bloom(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  const std::int64_t hidden = model.hidden;
  writer.embedding(OpRole::kTokenEmbedding, "transformer.word_embeddings", model.vocabulary,
                   hidden);
  writer.norm(OpRole::kEmbeddingNorm, "transformer.word_embeddings_layernorm", hidden);
  for_each_layer(writer, "transformer.h.", [&] {
    writer.norm(OpRole::kAttentionNorm, "input_layernorm", hidden);
    write_fused_attention(writer, "self_attention");
    writer.norm(OpRole::kMlpNorm, "post_attention_layernorm", hidden);
    write_four_fold_mlp(writer);
  });
  writer.norm(OpRole::kFinalNorm, "transformer.ln_f", hidden);
  write_head(writer);
}

void write_falcon(ParameterWriter& writer) {
  const ModelSpec& model = writer.model();
  writer.embedding(OpRole::kTokenEmbedding, "transformer.word_embeddings", model.vocabulary,
                   model.hidden);
  for_each_layer(writer, "transformer.h.", [&] {
    write_fused_attention(writer, "self_attention");
    write_four_fold_mlp(writer);
    write_falcon_norms(writer);
  });
  writer.norm(OpRole::kFinalNorm, "transformer.ln_f", model.hidden);
  write_head(writer);
}

}  // namespace headroom::ir
