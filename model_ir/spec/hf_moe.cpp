#include <algorithm>
#include <vector>

#include "model_ir/spec/hf_families.h"

namespace headroom::ir::hf {
namespace {

/// Marks the layers from `first` on as sparse.
void make_sparse_from(ModelSpec& model, std::int64_t first) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].moe = static_cast<std::int64_t>(i) >= first;
  }
}

void check_top_k(const HfFields& fields, const MoeSpec& moe) {
  if (moe.top_k > moe.experts) {
    fields.json().refuse("num_experts_per_tok",
                         "at most the number of experts (" + std::to_string(moe.experts) + ")");
  }
}

/// Whether the model's loss uses the routers' logits, whatever the value of router_aux_loss_coef.
bool reads_router_logits(const HfFields& fields) {
  return fields.json().boolean_or("output_router_logits", false);
}

/// Qwen's pattern: sparse unless named in mlp_only_layers or between the sparse steps.
void read_qwen_layers(const HfFields& fields, ModelSpec& model) {
  const JsonObject& json = fields.json();
  const std::int64_t step = json.integer_or("decoder_sparse_step", 1, kLayerCount);
  const std::vector<std::int64_t> dense =
      json.integers_or_none("mlp_only_layers", {0, kLayerCount.greatest});
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    model.layers[i].moe = !listed && (layer + 1) % step == 0;
  }
}

struct QwenExperts {
  std::int64_t experts;
  std::int64_t top_k;
  std::int64_t width;
};

MoeSpec read_qwen_experts(const HfFields& fields, const QwenExperts& defaults,
                          std::initializer_list<std::string_view> count_names) {
  const JsonObject& json = fields.json();
  MoeSpec moe;
  moe.auxiliary_loss = reads_router_logits(fields);
  moe.experts = fields.integer_or(count_names, defaults.experts, kExpertCount);
  moe.top_k = json.integer_or("num_experts_per_tok", defaults.top_k, kExpertCount);
  moe.expert_ffn = json.integer_or("moe_intermediate_size", defaults.width, kDimension);
  moe.normalise_top_k = json.boolean_or("norm_topk_prob", false);
  check_top_k(fields, moe);
  return moe;
}

/// The attention of DeepSeek-V2 and V3. Queries and keys have nope + rope elements a head.
void read_latent_attention(const HfFields& fields, ModelSpec& model) {
  const JsonObject& json = fields.json();
  LatentAttention latent;
  latent.q_rank =
      json.is_null("q_lora_rank") ? 0 : json.integer_or("q_lora_rank", 1536, kDimension);
  latent.kv_rank = json.integer_or("kv_lora_rank", 512, kDimension);
  latent.nope_dim = json.integer_or("qk_nope_head_dim", 128, kDimension);
  latent.rope_dim = json.integer_or("qk_rope_head_dim", 64, kDimension);
  latent.v_dim = json.integer_or("v_head_dim", 128, kDimension);
  if (latent.rope_dim % 2 != 0) {
    json.refuse("qk_rope_head_dim", "an even number");
  }
  model.latent = latent;
  model.head_dim = latent.nope_dim + latent.rope_dim;
  if (model.kv_heads != model.heads) {  // The code itself expands keys and values to all heads.
    json.refuse("num_key_value_heads",
                "num_attention_heads (" + std::to_string(model.heads) + "), or nothing");
  }
  model.qkv_bias = json.boolean_or("attention_bias", false);  // For the two down projections.
  model.output_bias = model.qkv_bias;
  model.rope_interleaved = true;
}

void read_deepseek_sizes(const HfFields& fields, ModelSpec& model,
                         const DecoderDefaults& defaults) {
  fields.read_sizes(model);
  fields.read_kv_heads(model, defaults.kv_heads);
  const JsonObject& json = fields.json();
  model.ffn = json.integer_or("intermediate_size", defaults.ffn, kDimension);
  model.max_positions =
      json.integer_or("max_position_embeddings", defaults.max_positions, kDimension);
  fields.read_activation(model, "hidden_act", "silu");
  model.dropout.attention = fields.probability("attention_dropout", 0);
  fields.read_tying(model, false);
  read_latent_attention(fields, model);
}

void check_groups(const HfFields& fields, const MoeSpec& moe) {
  if (moe.experts % moe.groups != 0) {
    fields.json().refuse(
        "n_group", "a divisor of the number of experts (" + std::to_string(moe.experts) + ")");
  }
  if (moe.top_groups > moe.groups) {
    fields.json().refuse("topk_group", "at most n_group (" + std::to_string(moe.groups) + ")");
  }
}

}  // namespace

void read_mixtral(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 14336, .kv_heads = 8, .max_positions = 131072});
  fields.read_uniform_window(model, std::nullopt);
  MoeSpec moe;
  moe.auxiliary_loss = reads_router_logits(fields);
  moe.input_noise = fields.probability("router_jitter_noise", 0) > 0;
  moe.experts = fields.integer_or({"num_local_experts", "num_experts"}, 8, kExpertCount);
  moe.top_k = fields.json().integer_or("num_experts_per_tok", 2, kExpertCount);
  moe.expert_ffn = model.ffn;
  moe.normalise_top_k = true;
  check_top_k(fields, moe);
  model.moe = moe;
  make_sparse_from(model, 0);
}

void read_qwen2_moe(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 5632, .kv_heads = 16, .max_positions = 32768});
  const JsonObject& json = fields.json();
  model.qkv_bias = json.boolean_or("qkv_bias", true);
  MoeSpec moe = read_qwen_experts(fields, {60, 4, 1408}, {"num_experts"});
  moe.shared_ffn = json.integer_or("shared_expert_intermediate_size", 5632, kDimension);
  moe.shared_gate = true;
  model.moe = moe;
  read_qwen_layers(fields, model);
  const bool uses = json.boolean_or("use_sliding_window", false);
  const std::int64_t window =
      json.integer_or("sliding_window", 4096, uses ? kDimension : IntegerRange{});
  const std::int64_t last = json.integer_or("max_window_layers", 28, {0, kLayerCount.greatest});
  fields.read_layer_windows(
      model, uses ? std::optional<std::int64_t>(window) : std::nullopt,
      [uses, last](std::int64_t layer) { return uses && layer % 2 == 0 && layer < last; });
}

void read_qwen3_moe(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 6144, .kv_heads = 4, .max_positions = 32768});
  const JsonObject& json = fields.json();
  model.qkv_bias = json.boolean_or("attention_bias", false);
  model.output_bias = model.qkv_bias;
  model.qk_norm = QkNorm::kPerHead;
  model.moe = read_qwen_experts(fields, {128, 8, 768}, {"num_experts", "num_local_experts"});
  read_qwen_layers(fields, model);
  if (json.boolean_or("use_sliding_window", false)) {
    fields.read_uniform_window(model, 4096);
  } else {
    json.accept("sliding_window");
  }
}

void read_deepseek_v2(const HfFields& fields, ModelSpec& model) {
  read_deepseek_sizes(fields, model, {.ffn = 11008, .max_positions = 2048});
  const JsonObject& json = fields.json();
  model.mlp_bias = json.boolean_or("mlp_bias", false);
  if (model.hidden % model.heads != 0) {
    json.refuse("num_attention_heads",
                "a divisor of the hidden size (" + std::to_string(model.hidden) + ")");
  }
  MoeSpec moe;
  moe.experts = fields.integer_or({"n_routed_experts", "num_experts"}, 64, kExpertCount);
  moe.top_k = json.integer("num_experts_per_tok", kExpertCount);  // The class has no default.
  moe.expert_ffn = json.integer_or("moe_intermediate_size", 1407, kDimension);
  moe.shared_ffn = moe.expert_ffn * json.integer_or("n_shared_experts", 2, kExpertCount);
  moe.scaling = json.number_or("routed_scaling_factor", 1.0);
  const std::string method = json.text_or("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    moe.groups = json.integer("n_group", kExpertCount);
    moe.top_groups = json.integer("topk_group", kExpertCount);
  } else if (method == "greedy") {
    json.accept("n_group");
    json.accept("topk_group");
  } else {
    json.refuse("topk_method", "greedy or group_limited_greedy");
  }
  check_top_k(fields, moe);
  check_groups(fields, moe);
  model.moe = moe;
  make_sparse_from(model, json.integer_or("first_k_dense_replace", 0, {0, kLayerCount.greatest}));
}

void read_deepseek_v3(const HfFields& fields, ModelSpec& model) {
  read_deepseek_sizes(fields, model, {.ffn = 18432, .kv_heads = 128, .max_positions = 4096});
  const JsonObject& json = fields.json();
  model.rope_interleaved = json.boolean_or("rope_interleave", true);
  MoeSpec moe;
  moe.experts = fields.integer_or({"n_routed_experts", "num_local_experts"}, 256, kExpertCount);
  moe.top_k = json.integer_or("num_experts_per_tok", 8, kExpertCount);
  moe.expert_ffn = json.integer_or("moe_intermediate_size", 2048, kDimension);
  moe.shared_ffn = moe.expert_ffn * json.integer_or("n_shared_experts", 1, kExpertCount);
  moe.correction_bias = true;
  moe.normalise_top_k = json.boolean_or("norm_topk_prob", true);
  moe.scaling = json.number_or("routed_scaling_factor", 2.5);
  moe.groups = json.integer_or("n_group", 8, kExpertCount);
  moe.top_groups = json.integer_or("topk_group", 4, kExpertCount);
  check_top_k(fields, moe);
  check_groups(fields, moe);
  model.moe = moe;
  make_sparse_from(model, json.integer_or("first_k_dense_replace", 3, {0, kLayerCount.greatest}));
}

void read_gpt_oss(const HfFields& fields, ModelSpec& model) {
  fields.read_decoder(model, {.ffn = 2880, .kv_heads = 8, .head_dim = 64, .max_positions = 131072});
  const JsonObject& json = fields.json();
  model.qkv_bias = json.boolean_or("attention_bias", true);
  model.output_bias = model.qkv_bias;
  model.norm = NormKind::kRmsFp32;
  model.attention_sinks = true;
  MoeSpec moe;
  moe.auxiliary_loss = reads_router_logits(fields);
  moe.experts = fields.integer_or({"num_local_experts", "num_experts"}, 128, kExpertCount);
  moe.top_k = json.integer_or("num_experts_per_tok", 4, kExpertCount);
  moe.expert_ffn = model.ffn;
  moe.expert_bias = true;
  moe.router_bias = true;
  check_top_k(fields, moe);
  model.moe = moe;
  make_sparse_from(model, 0);
  const std::optional<std::int64_t> window =
      json.is_null("sliding_window")
          ? std::nullopt
          : std::optional<std::int64_t>(json.integer_or("sliding_window", 128, kDimension));
  fields.read_layer_windows(model, window, [](std::int64_t layer) { return layer % 2 == 0; });
}

}  // namespace headroom::ir::hf
