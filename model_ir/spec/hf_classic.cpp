#include <cmath>
#include <string>

#include "model_ir/spec/hf_families.h"

namespace headroom::ir::hf {
namespace {

/// LayerNorm, a plain MLP and biases everywhere: the form of the first generation of models.
void set_classic_form(ModelSpec& model) {
  model.norm = NormKind::kLayer;
  model.gated_mlp = false;
  model.qkv_bias = true;
  model.output_bias = true;
  model.mlp_bias = true;
}

void set_layers(ModelSpec& model, std::int64_t count) {
  model.layers.resize(static_cast<std::size_t>(count));
}

void read_t5_activation(const JsonObject& json, std::string_view name, ModelSpec& model) {
  if (name == "relu") {
    model.activation = Activation::kRelu;
  } else if (name == "gelu") {
    model.activation = Activation::kGelu;
  } else if (name == "gelu_new") {
    model.activation = Activation::kGeluNew;
  } else if (name == "silu") {
    model.activation = Activation::kSilu;
  } else {
    json.refuse("feed_forward_proj", "relu, gelu, silu, gated-gelu, gated-relu or gated-silu");
  }
}

}  // namespace

void read_gpt2(const HfFields& fields, ModelSpec& model) {
  set_classic_form(model);
  const JsonObject& json = fields.json();
  model.hidden = fields.required({"n_embd", "hidden_size"}, kDimension);
  model.embedding_dim = model.hidden;
  model.heads = fields.required({"n_head", "num_attention_heads"}, kDimension);
  model.kv_heads = model.heads;
  set_layers(model, fields.required({"n_layer", "num_hidden_layers"}, kLayerCount));
  model.vocabulary = json.integer("vocab_size", kVocabulary);
  fields.derive_head_dim(model, json.has("n_head") ? "n_head" : "num_attention_heads");
  model.ffn = json.integer_or("n_inner", 4 * model.hidden, kDimension);
  model.max_positions =
      fields.integer_or({"n_positions", "max_position_embeddings"}, 1024, kDimension);
  model.position = PositionKind::kLearned;
  model.position_rows = model.max_positions;
  model.qkv = QkvLayout::kFusedConv1d;
  fields.read_activation(model, "activation_function", "gelu_new");
  fields.read_tying(model, true);
  model.dropout.embedding = fields.probability("embd_pdrop", 0.1);
  model.dropout.attention = fields.probability("attn_pdrop", 0.1);
  model.dropout.residual = fields.probability("resid_pdrop", 0.1);
  if (!json.boolean_or("scale_attn_weights", true)) {
    model.attention_scale = 1;
  }
  fields.support_only("add_cross_attention", false, "cross-attention is not modelled for gpt2");
}

void read_gpt_neox(const HfFields& fields, ModelSpec& model) {
  set_classic_form(model);
  fields.read_sizes(model);
  model.kv_heads = model.heads;
  fields.derive_head_dim(model);
  const JsonObject& json = fields.json();
  model.ffn = json.integer_or("intermediate_size", 24576, kDimension);
  model.max_positions = json.integer_or("max_position_embeddings", 2048, kDimension);
  model.qkv = QkvLayout::kFused;
  model.qkv_bias = json.boolean_or("attention_bias", true);
  model.output_bias = model.qkv_bias;
  model.residual = json.boolean_or("use_parallel_residual", true) ? ResidualForm::kParallelTwoNorms
                                                                  : ResidualForm::kSequential;
  fields.read_activation(model, "hidden_act", "gelu");
  fields.read_tying(model, false);
  model.dropout.attention = fields.probability("attention_dropout", 0);
  model.dropout.residual = fields.probability("hidden_dropout", 0);
  model.dropout.embedding = model.dropout.residual;
  fields.read_rope_fraction(model, "rotary_pct", 0.25);
}

void read_opt(const HfFields& fields, ModelSpec& model) {
  set_classic_form(model);
  fields.read_sizes(model);
  model.kv_heads = model.heads;
  fields.derive_head_dim(model);
  const JsonObject& json = fields.json();
  model.embedding_dim = json.integer_or("word_embed_proj_dim", model.hidden, kDimension);
  model.ffn = json.integer_or("ffn_dim", 3072, kDimension);
  model.max_positions = json.integer_or("max_position_embeddings", 2048, kDimension);
  model.position = PositionKind::kLearned;
  model.position_rows = model.max_positions + 2;  // OPTLearnedPositionalEmbedding.offset
  const bool bias = json.boolean_or("enable_bias", true);
  model.qkv_bias = bias;
  model.output_bias = bias;
  model.mlp_bias = bias;
  const bool before = json.boolean_or("do_layer_norm_before", true);
  model.norm_placement = before ? NormPlacement::kPre : NormPlacement::kPost;
  const bool removed = json.boolean_or("_remove_final_layer_norm", false);
  model.final_norm = before && !removed;
  fields.support_only("layer_norm_elementwise_affine", true,
                      "norms without weights are not modelled");
  fields.read_activation(model, "activation_function", "relu");
  fields.read_tying(model, true);
  model.dropout.attention = fields.probability("attention_dropout", 0);
  model.dropout.residual = fields.probability("dropout", 0.1);
}

void read_bloom(const HfFields& fields, ModelSpec& model) {
  set_classic_form(model);
  const JsonObject& json = fields.json();
  model.hidden = fields.required({"hidden_size", "n_embed"}, kDimension);
  model.embedding_dim = model.hidden;
  model.heads = fields.required({"n_head", "num_attention_heads"}, kDimension);
  model.kv_heads = model.heads;
  set_layers(model, fields.required({"n_layer", "num_hidden_layers"}, kLayerCount));
  model.vocabulary = json.integer("vocab_size", kVocabulary);
  fields.derive_head_dim(model, json.has("n_head") ? "n_head" : "num_attention_heads");
  model.ffn = 4 * model.hidden;  // This class has no key for it.
  model.position = PositionKind::kAlibi;
  model.qkv = QkvLayout::kFused;
  model.embedding_norm = true;
  model.activation = Activation::kGeluTanh;  // A function of its own with the tanh formula.
  fields.read_tying(model, true);
  model.dropout.attention = fields.probability("attention_dropout", 0);
  model.dropout.residual = fields.probability("hidden_dropout", 0);
  fields.support_only("apply_residual_connection_post_layernorm", false,
                      "residuals taken after the norm are not modelled");
  fields.support_only("slow_but_exact", false, "split projections are not modelled");
}

void read_falcon(const HfFields& fields, ModelSpec& model) {
  const JsonObject& json = fields.json();
  model.hidden = fields.required({"hidden_size", "n_embed"}, kDimension);
  model.embedding_dim = model.hidden;
  model.heads = fields.required({"num_attention_heads"}, kDimension);
  set_layers(model, fields.required({"num_hidden_layers"}, kLayerCount));
  model.vocabulary = json.integer("vocab_size", kVocabulary);
  fields.derive_head_dim(model);
  model.ffn = json.integer_or("ffn_hidden_size", 4 * model.hidden, kDimension);
  model.max_positions = json.integer_or("max_position_embeddings", 2048, kDimension);
  model.norm = NormKind::kLayer;
  model.gated_mlp = false;
  model.qkv = QkvLayout::kFused;
  const bool bias = json.boolean_or("bias", false);
  model.qkv_bias = bias;
  model.output_bias = bias;
  model.mlp_bias = bias;
  const bool grouped = json.boolean_or("new_decoder_architecture", false);
  const bool single = json.boolean_or("multi_query", true);
  const std::int64_t asked = json.integer_or("num_kv_heads", model.heads, kDimension);
  model.kv_heads = grouped ? asked : (single ? 1 : model.heads);
  if (model.heads % model.kv_heads != 0) {
    json.refuse("num_kv_heads",
                "a divisor of num_attention_heads (" + std::to_string(model.heads) + ")");
    model.kv_heads = model.heads;
  }
  const bool parallel = json.boolean_or("parallel_attn", true);
  const std::int64_t norms = json.integer_or("num_ln_in_parallel_attn", grouped ? 2 : 1, {1, 2});
  model.residual = !parallel    ? ResidualForm::kSequential
                   : norms == 2 ? ResidualForm::kParallelTwoNorms
                                : ResidualForm::kParallelOneNorm;
  if (grouped && !parallel) {
    json.refuse("parallel_attn", "true, because new_decoder_architecture is");
  }
  if (!grouped && parallel && norms == 2) {
    json.refuse("num_ln_in_parallel_attn", "1 or nothing unless new_decoder_architecture is true");
  }
  model.position = json.boolean_or("alibi", false) ? PositionKind::kAlibi : PositionKind::kRope;
  fields.read_activation(model, "activation", "gelu");
  fields.read_tying(model, true);
  model.dropout.attention = fields.probability("attention_dropout", 0);
  model.dropout.residual = fields.probability("hidden_dropout", 0);
}

void read_bert(const HfFields& fields, ModelSpec& model) {
  set_classic_form(model);
  model.architecture = Architecture::kMaskedLm;
  fields.read_sizes(model);
  model.kv_heads = model.heads;
  fields.derive_head_dim(model);
  const JsonObject& json = fields.json();
  model.ffn = json.integer_or("intermediate_size", 3072, kDimension);
  model.max_positions = json.integer_or("max_position_embeddings", 512, kDimension);
  model.position = PositionKind::kLearned;
  model.position_rows = model.max_positions;
  model.token_types = json.integer_or("type_vocab_size", 2, kDimension);
  model.norm_placement = NormPlacement::kPost;
  model.embedding_norm = true;
  model.final_norm = false;
  model.head_bias = true;
  model.head_transform = true;
  fields.read_activation(model, "hidden_act", "gelu");
  fields.read_tying(model, true);
  model.dropout.embedding = fields.probability("hidden_dropout_prob", 0.1);
  model.dropout.residual = model.dropout.embedding;
  model.dropout.attention = fields.probability("attention_probs_dropout_prob", 0.1);
  fields.support_only("is_decoder", false, "BERT is modelled as a masked language model");
  fields.support_only("add_cross_attention", false, "cross-attention is not modelled for bert");
}

void read_t5(const HfFields& fields, ModelSpec& model) {
  const JsonObject& json = fields.json();
  model.architecture = Architecture::kEncoderDecoder;
  model.hidden = fields.required({"d_model", "hidden_size"}, kDimension);
  model.embedding_dim = model.hidden;
  model.heads = fields.required({"num_heads", "num_attention_heads"}, kDimension);
  model.kv_heads = model.heads;
  model.head_dim = fields.integer_or({"d_kv", "head_dim"}, 64, kDimension);
  const std::int64_t encoder = fields.required({"num_layers", "num_hidden_layers"}, kLayerCount);
  model.encoder = EncoderSpec{.layers = encoder};
  set_layers(model, json.integer_or("num_decoder_layers", encoder, kLayerCount));
  model.vocabulary = json.integer("vocab_size", kVocabulary);
  model.ffn = json.integer_or("d_ff", 2048, kDimension);
  model.norm = NormKind::kRmsT5;
  model.position = PositionKind::kRelativeBias;
  model.relative_buckets = json.integer_or("relative_attention_num_buckets", 32, kDimension);
  model.attention_scale = 1;
  const std::string form = json.text_or("feed_forward_proj", "relu");
  constexpr std::string_view kGated = "gated-";
  model.gated_mlp = form.rfind(kGated, 0) == 0;
  const std::string name = model.gated_mlp ? form.substr(kGated.size()) : form;
  // "gated-gelu" has meant gelu_new since T5 v1.1 (T5Config.__post_init__).
  read_t5_activation(json, form == "gated-gelu" ? "gelu_new" : name, model);
  // T5Config always ties; the key only says whether the decoder's output is scaled down first.
  model.tied_embeddings = true;
  if (json.boolean_or("tie_word_embeddings", true)) {
    model.head_input_scale = 1 / std::sqrt(static_cast<double>(model.hidden));
  }
  const double dropout = fields.probability("dropout_rate", 0.1);
  model.dropout = {
      .embedding = dropout, .attention = dropout, .residual = dropout, .activation = dropout};
}

}  // namespace headroom::ir::hf
