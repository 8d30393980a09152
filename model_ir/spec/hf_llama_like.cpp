#include "model_ir/spec/hf_families.h"

namespace headroom::ir::hf {
namespace {

/// `attention_bias`: one switch for all four projections.
void read_attention_bias(const HfFields& fields, ModelSpec& model, bool fallback) {
  model.qkv_bias = fields.json().boolean_or("attention_bias", fallback);
  model.output_bias = model.qkv_bias;
}

/// Window from layer `max_window_layers` on, if `use_sliding_window` (Qwen2, Qwen3).
void read_qwen_windows(const HfFields& fields, ModelSpec& model) {
  const JsonObject& json = fields.json();
  const bool uses = json.boolean_or("use_sliding_window", false);
  const auto given = json.optional_integer("sliding_window", uses ? kDimension : IntegerRange{});
  const std::int64_t first = json.integer_or("max_window_layers", 28, {0, kLayerCount.greatest});
  const std::int64_t window = given.value_or(4096);
  const bool none = !uses || json.is_null("sliding_window");
  fields.read_layer_windows(model, none ? std::nullopt : std::optional<std::int64_t>(window),
                            [none, first](std::int64_t layer) { return !none && layer >= first; });
}

}  // namespace

void read_llama(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 11008, .max_positions = 2048});
  fields.require_whole_heads(model);
  read_attention_bias(fields, model, false);
  model.mlp_bias = fields.json().boolean_or("mlp_bias", false);
}

void read_mistral(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 14336, .kv_heads = 8, .max_positions = 131072});
  fields.read_uniform_window(model, 4096);
}

void read_qwen2(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 22016, .kv_heads = 32, .max_positions = 32768});
  model.qkv_bias = true;  // This class has no key for it: always present, and never on the output.
  read_qwen_windows(fields, model);
}

void read_qwen3(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model,
                      {.ffn = 22016, .kv_heads = 32, .head_dim = 128, .max_positions = 32768});
  read_attention_bias(fields, model, false);
  model.qk_norm = QkNorm::kPerHead;
  read_qwen_windows(fields, model);
}

void read_phi3(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 8192, .max_positions = 4096});
  model.qkv = QkvLayout::kFused;
  model.fused_gate_up = true;
  model.dropout.residual = fields.probability("resid_pdrop", 0);  // embd_pdrop is never used.
  fields.read_uniform_window(model, std::nullopt);
  fields.read_rope_fraction(model, "partial_rotary_factor", 1.0);
}

void read_granite(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 11008, .max_positions = 2048});
  read_attention_bias(fields, model, false);
  const JsonObject& json = fields.json();
  model.mlp_bias = json.boolean_or("mlp_bias", false);
  model.embedding_scale = json.number_or("embedding_multiplier", 1);
  model.residual_scale = json.number_or("residual_multiplier", 1);
  model.attention_scale = json.number_or("attention_multiplier", 1);
  model.logit_scale = 1 / json.number_or("logits_scaling", 1, kPositive);
  model.scales_embedding = true;
  model.scales_residual = true;
  model.scales_logits = true;
}

void read_olmo2(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 11008, .max_positions = 2048});
  read_attention_bias(fields, model, false);
  model.norm = NormKind::kRmsFp32;
  model.norm_placement = NormPlacement::kOutput;
  model.qk_norm = QkNorm::kFull;
}

void read_cohere(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 22528, .max_positions = 8192, .tied = true});
  read_attention_bias(fields, model, false);
  model.norm = NormKind::kLayerNoBias;
  model.residual = ResidualForm::kParallelOneNorm;
  model.rope_interleaved = true;
  const JsonObject& json = fields.json();
  if (json.boolean_or("use_qk_norm", false)) {
    model.qk_norm = QkNorm::kPerHeadWeights;
  }
  model.logit_scale = json.number_or("logit_scale", 0.0625);
  model.scales_logits = true;
}

void read_starcoder2(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 12288,
                              .kv_heads = 2,
                              .max_positions = 4096,
                              .tied = true,
                              .activation = "gelu_pytorch_tanh"});
  const bool bias = fields.json().boolean_or("use_bias", true);
  model.qkv_bias = bias;
  model.output_bias = bias;
  model.mlp_bias = bias;
  model.norm = NormKind::kLayer;
  model.gated_mlp = false;
  model.dropout.residual = fields.probability("residual_dropout", 0);
  model.dropout.embedding = fields.probability("embedding_dropout", 0);
  fields.read_uniform_window(model, std::nullopt);
}

void read_glm4(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model,
                      {.ffn = 13696, .kv_heads = 2, .head_dim = 128, .max_positions = 131072});
  model.qkv_bias = fields.json().boolean_or("attention_bias", true);  // Never on the output.
  model.norm_placement = NormPlacement::kSandwich;
  model.fused_gate_up = true;
  model.rope_interleaved = true;
  fields.read_rope_fraction(model, "partial_rotary_factor", 0.5);
}

void read_stablelm(const HfFields& fields, ModelSpec& model) {
  fields.read_sizes(model);
  fields.read_kv_heads(model, 32);
  fields.derive_head_dim(model);
  const JsonObject& json = fields.json();
  model.ffn = json.integer_or("intermediate_size", 6912, kDimension);
  model.max_positions = json.integer_or("max_position_embeddings", 4096, kDimension);
  fields.read_activation(model, "hidden_act", "silu");
  fields.read_tying(model, false);
  model.norm = NormKind::kLayer;
  model.qkv_bias = json.boolean_or("use_qkv_bias", false);
  if (json.boolean_or("qk_layernorm", false)) {
    model.qk_norm = QkNorm::kPerHeadWeights;
  }
  if (json.boolean_or("use_parallel_residual", false)) {
    model.residual = ResidualForm::kParallelOneNorm;
  }
  model.dropout.attention = fields.probability("attention_dropout", 0);
  model.dropout.residual = fields.probability("hidden_dropout", 0);  // On the MLP's output only.
  fields.read_rope_fraction(model, "partial_rotary_factor", 0.25);
}

}  // namespace headroom::ir::hf
