#include <cmath>

#include "model_ir/spec/hf_families.h"

namespace headroom::ir::hf {
namespace {

void read_common(const HfFields& fields, ModelSpec& model, const DecoderDefaults& defaults) {
  fields.read_decoder(model, defaults);
  const JsonObject& json = fields.json();
  model.qkv_bias = json.boolean_or("attention_bias", false);
  model.output_bias = model.qkv_bias;
  fields.support_only("use_bidirectional_attention", false,
                      "attention in both directions is not modelled");
  model.norm = NormKind::kRmsGemma;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  model.scales_embedding = true;
}

/// A softcap. null and absence differ, because Gemma 2 has a softcap by default.
double softcap(const JsonObject& json, std::string_view key, double fallback) {
  return json.is_null(key) ? 0 : json.number_or(key, fallback, kPositive);
}

/// The keys that Gemma 2 added and Gemma 3 kept.
void read_second_generation(const HfFields& fields, ModelSpec& model) {
  fields.require_whole_heads(model);
  model.norm_placement = NormPlacement::kSandwich;
  model.attention_scale =
      1 / std::sqrt(fields.json().number_or("query_pre_attn_scalar", 256, kPositive));
}

std::optional<std::int64_t> window(const JsonObject& json) {
  if (json.is_null("sliding_window")) {
    return std::nullopt;
  }
  return json.integer_or("sliding_window", 4096, kDimension);
}

}  // namespace

void read_gemma(const HfFields& fields, ModelSpec& model) {
  read_common(fields, model,
              {.ffn = 24576,
               .kv_heads = 16,
               .head_dim = 256,
               .max_positions = 8192,
               .tied = true,
               .activation = "gelu_pytorch_tanh"});
}

void read_gemma2(const HfFields& fields, ModelSpec& model) {
  read_common(fields, model,
              {.ffn = 9216,
               .kv_heads = 4,
               .head_dim = 256,
               .max_positions = 8192,
               .tied = true,
               .activation = "gelu_pytorch_tanh",
               .activation_key = "hidden_activation"});
  read_second_generation(fields, model);
  const JsonObject& json = fields.json();
  model.attention_softcap = softcap(json, "attn_logit_softcapping", 50);
  model.logit_softcap = softcap(json, "final_logit_softcapping", 30);
  fields.read_layer_windows(model, window(json), [](std::int64_t layer) { return layer % 2 == 0; });
}

void read_gemma3_text(const HfFields& fields, ModelSpec& model) {
  DecoderDefaults defaults{.ffn = 9216,
                           .kv_heads = 4,
                           .head_dim = 256,
                           .max_positions = 131072,
                           .tied = true,
                           .activation = "gelu_pytorch_tanh",
                           .activation_key = "hidden_activation"};
  if (!fields.json().pointer().empty()) {
    // google/gemma-3-4b-pt and related files write only what differs from the class into
    // text_config.
    defaults.heads = 8;
    defaults.vocabulary = 262208;
  }
  read_common(fields, model, defaults);
  read_second_generation(fields, model);
  const JsonObject& json = fields.json();
  model.qk_norm = QkNorm::kPerHead;
  model.local_rope = true;
  model.attention_softcap = softcap(json, "attn_logit_softcapping", 0);
  model.logit_softcap = softcap(json, "final_logit_softcapping", 0);
  const std::int64_t pattern =
      json.integer_or("sliding_window_pattern", 6, {1, kLayerCount.greatest});
  fields.read_layer_windows(model, window(json),
                            [pattern](std::int64_t layer) { return (layer + 1) % pattern != 0; });
}

}  // namespace headroom::ir::hf
