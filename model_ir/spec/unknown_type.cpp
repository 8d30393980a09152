#include "model_ir/spec/unknown_type.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "model_ir/base/error.h"

namespace headroom::ir {
namespace {

/// The command that answers models of any type, for the end of the advice. No other place names it.
constexpr std::string_view kImport =
    "with PyTorch and transformers installed, headroom import FILE --output model.json records the "
    "model from its own code, and model.json takes its place";

constexpr std::string_view kForce = "only if its layers are those of a known family: --as FAMILY";

/// The keys by which a family is told from those below it.
struct Keys {
  Family family;
  std::array<std::string_view, 4> all;  ///< Empty ones do not count.
};
constexpr std::array<Keys, 10> kKeys = {
    {{Family::kDeepseekV3, {"kv_lora_rank", "qk_rope_head_dim", "n_routed_experts", "topk_group"}},
     {Family::kDeepseekV2, {"kv_lora_rank", "qk_rope_head_dim", "n_routed_experts"}},
     {Family::kQwen2Moe,
      {"num_experts", "moe_intermediate_size", "shared_expert_intermediate_size"}},
     {Family::kQwen3Moe, {"num_experts", "moe_intermediate_size", "num_key_value_heads"}},
     {Family::kMixtral, {"num_local_experts", "num_experts_per_tok", "num_key_value_heads"}},
     {Family::kGemma3Text, {"query_pre_attn_scalar", "sliding_window", "num_key_value_heads"}},
     {Family::kGranite, {"embedding_multiplier", "logits_scaling", "num_key_value_heads"}},
     {Family::kLlama, {"num_key_value_heads", "intermediate_size", "rms_norm_eps"}},
     {Family::kT5, {"d_model", "d_kv", "num_decoder_layers"}},
     {Family::kGpt2, {"n_embd", "n_layer", "n_head"}}}};

/// Beginnings of keys that describe layers which no known family has.
constexpr std::array<std::string_view, 12> kUnlike = {
    "mamba_",     "ssm_",          "linear_num_", "linear_key_", "conv_kernel", "conv_L_cache",
    "index_topk", "index_n_heads", "attn_layer_", "hybrid_",     "state_size",  "time_step_"};

constexpr std::size_t kMostNamed = 3;

bool begins_unlike(std::string_view key) {
  return std::ranges::any_of(kUnlike,
                             [key](std::string_view begin) { return key.starts_with(begin); });
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) {
    names.push_back(name);
  }
}

std::vector<std::string> unlike_parts(const JsonObject& text) {
  std::vector<std::string> parts;
  if (text.has_texts("layer_types")) {
    for (const std::string& kind : text.texts_or_none("layer_types")) {
      if (kind != "full_attention" && kind != "sliding_attention") {
        add_once(parts, kind);
      }
    }
  }
  for (const std::string& key : text.keys()) {
    if (begins_unlike(key) && text.has(key)) {
      add_once(parts, key);
    }
  }
  return parts;
}

bool has_experts(const JsonObject& text) {
  return std::ranges::any_of(text.keys(), [&text](const std::string& key) {
    return key.find("expert") != std::string::npos && text.has(key);
  });
}

bool is_sparse(Family family) {
  return family == Family::kDeepseekV3 || family == Family::kDeepseekV2 ||
         family == Family::kQwen2Moe || family == Family::kQwen3Moe || family == Family::kMixtral;
}

std::optional<Family> family_alike(const JsonObject& text) {
  const auto* const found = std::ranges::find_if(kKeys, [&text](const Keys& keys) {
    return std::ranges::all_of(
        keys.all, [&text](std::string_view key) { return key.empty() || text.has(key); });
  });
  const bool alike = found != kKeys.end() && (is_sparse(found->family) || !has_experts(text));
  return alike ? std::optional(found->family) : std::nullopt;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t at = 0; at < std::min(names.size(), kMostNamed); ++at) {
    text += (at == 0 ? "" : ", ") + printable(std::string_view(names[at]).substr(0, 40));
  }
  return text + (names.size() > kMostNamed ? ", ..." : "");
}

}  // namespace

UnknownType describe_unknown_type(const JsonObject& config) {
  const std::optional<JsonObject> part = config.optional_object("text_config");
  const JsonObject& text = part && !config.has("hidden_size") ? *part : config;
  return {.type = config.text_or("model_type", ""),
          .alike = family_alike(text),
          .unlike = unlike_parts(text),
          .experts = has_experts(text)};
}

std::string advice_on(const UnknownType& unknown) {
  const std::optional<std::string> near = closest_word(unknown.type, family_names());
  const std::optional<Family> meant = near ? parse_family(*near) : std::nullopt;
  std::string advice(kForce);
  if (!unknown.unlike.empty()) {
    advice = "no known family has " + list_of(unknown.unlike) +
             ", so that --as would answer for another model";
  } else if (meant && is_sparse(*meant) == unknown.experts) {
    advice = "if " + *near + " is meant: --as " + *near;
  } else if (unknown.alike) {
    const std::string family(name_of(*unknown.alike));
    advice = "its keys are those of " + family + ": if its layers are, too, --as " + family;
  }
  return advice + "; " + std::string(kImport);
}

}  // namespace headroom::ir
