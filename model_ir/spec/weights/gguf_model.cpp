#include "model_ir/spec/weights/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/json/json_value.h"
#include "model_ir/spec/hf_config.h"

namespace headroom::ir {
namespace {

/// Collects configuration keys from the metadata of one architecture and keeps the first fault.
class ConfigBuilder {
 public:
  ConfigBuilder(const GgufFile& gguf, std::string architecture)
      : gguf_(gguf), architecture_(std::move(architecture)) {}

  /// A number under "ARCHITECTURE.key"; an array counts if all its items are equal.
  std::optional<std::int64_t> find(std::string_view key) {
    const std::string full = architecture_ + "." + std::string(key);
    const GgufValue* value = gguf_.find(full);
    const GgufArray* array = value != nullptr ? std::get_if<GgufArray>(value) : nullptr;
    if (array == nullptr) {
      return gguf_.integer(full);
    }
    const std::vector<double>& items = array->numbers;
    const bool equal = !items.empty() && std::all_of(items.begin(), items.end(), [&](double item) {
      return item == items.front() && std::abs(item) < 9e15 && std::trunc(item) == item;
    });
    if (!equal) {
      fail(full, "sizes that differ from layer to layer", "the same size in every layer");
      return std::nullopt;
    }
    return static_cast<std::int64_t>(items.front());
  }

  std::int64_t demand(std::string_view key) {
    const auto value = find(key);
    if (!value) {
      fail(architecture_ + "." + std::string(key), "nothing", "a whole number");
    }
    return value.value_or(1);
  }

  void set(const char* config, std::int64_t value) { add(config, JsonValue{value}); }
  void set(const char* config, bool value) { add(config, JsonValue{value}); }
  void set_ratio(const char* config, double value) { add(config, JsonValue{value}); }
  void set_text(const char* config, std::string_view value) {
    add(config, JsonValue{std::string(value)});
  }
  void set_null(const char* config) { add(config, JsonValue{}); }
  /// Copies a required key, or an optional one.
  void copy(const char* config, std::string_view key) { set(config, demand(key)); }
  void copy_if(const char* config, std::string_view key) {
    if (const auto value = find(key)) {
      set(config, *value);
    }
  }

  [[nodiscard]] bool has_tensor(std::string_view name) const {
    return gguf_.tensor(name) != nullptr;
  }

  void fail(std::string_view key, std::string_view got, std::string_view wanted,
            std::string_view fix = {}) {
    if (!error_) {
      error_ = Error::invalid_input(gguf_.path, key, got, wanted, fix);
    }
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] const GgufFile& gguf() const { return gguf_; }
  [[nodiscard]] std::string text() { return to_json(JsonValue{std::move(config_)}); }

 private:
  /// If a key is set twice, the later value counts.
  void add(std::string_view key, JsonValue value) {
    for (JsonMember& member : config_) {
      if (member.key == key) {
        member.value = std::move(value);
        return;
      }
    }
    config_.push_back({std::string(key), std::move(value)});
  }

  const GgufFile& gguf_;
  std::string architecture_;
  JsonValue::Object config_;
  std::optional<Error> error_;
};

/// Rows of the embedding, which may be padded beyond the tokenizer's tokens.
std::int64_t vocabulary(ConfigBuilder& config) {
  if (const TensorEntry* embedding = config.gguf().tensor("token_embd.weight")) {
    return embedding->shape.front();
  }
  if (const auto stated = config.find("vocab_size")) {
    return *stated;
  }
  const GgufValue* tokens = config.gguf().find("tokenizer.ggml.tokens");
  const GgufArray* array = tokens != nullptr ? std::get_if<GgufArray>(tokens) : nullptr;
  if (array == nullptr || array->size > static_cast<std::uint64_t>(INT64_MAX)) {
    config.fail("token_embd.weight", "nothing", "an embedding, or tokenizer.ggml.tokens");
    return 1;
  }
  return static_cast<std::int64_t>(array->size);
}

/// Elements of a head: the metadata's, or H / A.
std::int64_t head_dim(ConfigBuilder& config) {
  if (const auto stated = config.find("attention.key_length")) {
    return *stated;
  }
  return config.demand("embedding_length") /
         std::max<std::int64_t>(1, config.demand("attention.head_count"));
}

void set_tying(ConfigBuilder& config) {
  config.set("tie_word_embeddings", !config.has_tensor("output.weight"));
}

/// Keys under Llama's names.
void set_llama_sizes(ConfigBuilder& config) {
  config.copy("hidden_size", "embedding_length");
  config.copy("num_hidden_layers", "block_count");
  config.copy("num_attention_heads", "attention.head_count");
  config.copy_if("num_key_value_heads", "attention.head_count_kv");
  config.copy_if("intermediate_size", "feed_forward_length");
  config.copy_if("max_position_embeddings", "context_length");
  config.set("vocab_size", vocabulary(config));
  set_tying(config);
}

void set_rotated_share(ConfigBuilder& config, const char* key) {
  if (const auto rotated = config.find("rope.dimension_count")) {
    config.set_ratio(key, static_cast<double>(*rotated) /
                              static_cast<double>(std::max<std::int64_t>(1, head_dim(config))));
  }
}

void build_llama(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("head_dim", head_dim(config));
  config.set("attention_bias", config.has_tensor("blk.0.attn_q.bias"));
  config.set("mlp_bias", config.has_tensor("blk.0.ffn_gate.bias"));
}

void build_mixtral(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("head_dim", head_dim(config));
  config.copy("num_local_experts", "expert_count");
  config.copy("num_experts_per_tok", "expert_used_count");
}

void build_plain(ConfigBuilder& config) {
  set_llama_sizes(config);
}

void build_with_head_dim(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("head_dim", head_dim(config));
  config.copy_if("sliding_window", "attention.sliding_window");
}

void build_qwen3(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("head_dim", head_dim(config));
  config.set("attention_bias", config.has_tensor("blk.0.attn_q.bias"));
}

void build_qwen_moe(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("head_dim", head_dim(config));
  config.copy("num_experts", "expert_count");
  config.copy("num_experts_per_tok", "expert_used_count");
  config.copy("moe_intermediate_size", "expert_feed_forward_length");
  config.copy_if("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
}

void build_phi3(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.copy_if("sliding_window", "attention.sliding_window");
  set_rotated_share(config, "partial_rotary_factor");
  config.set("pad_token_id", std::int64_t{0});  // The class's default is beyond small vocabularies.
}

void build_cohere(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("use_qk_norm", config.has_tensor("blk.0.attn_q_norm.weight"));
}

void build_starcoder2(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("use_bias", config.has_tensor("blk.0.attn_q.bias"));
  config.copy_if("sliding_window", "attention.sliding_window");
}

void build_glm4(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("head_dim", head_dim(config));
  config.set("attention_bias", config.has_tensor("blk.0.attn_q.bias"));
  set_rotated_share(config, "partial_rotary_factor");
}

void build_stablelm(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("use_qkv_bias", config.has_tensor("blk.0.attn_q.bias"));
  config.set("qk_layernorm", config.has_tensor("blk.0.attn_q_norm.weight"));
  config.set("use_parallel_residual", !config.has_tensor("blk.0.ffn_norm.weight"));
  set_rotated_share(config, "partial_rotary_factor");
}

void build_gpt2(ConfigBuilder& config) {
  config.copy("n_embd", "embedding_length");
  config.copy("n_layer", "block_count");
  config.copy("n_head", "attention.head_count");
  config.copy("n_positions", "context_length");
  config.copy("n_inner", "feed_forward_length");
  config.set("vocab_size", vocabulary(config));
  set_tying(config);
}

void build_gpt_neox(ConfigBuilder& config) {
  set_llama_sizes(config);
  set_rotated_share(config, "rotary_pct");
}

void build_bloom(ConfigBuilder& config) {
  config.copy("hidden_size", "embedding_length");
  config.copy("n_layer", "block_count");
  config.copy("n_head", "attention.head_count");
  config.set("vocab_size", vocabulary(config));
  set_tying(config);
}

void build_falcon(ConfigBuilder& config) {
  config.copy("hidden_size", "embedding_length");
  config.copy("num_hidden_layers", "block_count");
  config.copy("num_attention_heads", "attention.head_count");
  config.set("vocab_size", vocabulary(config));
  const std::int64_t kv_heads = config.demand("attention.head_count_kv");
  config.set("multi_query", kv_heads == 1);
  config.set("new_decoder_architecture", config.has_tensor("blk.0.attn_norm_2.weight"));
  if (kv_heads > 1) {
    config.set("num_kv_heads", kv_heads);
  }
  config.set("parallel_attn", true);
  config.set("alibi", false);
  config.set("bias", false);
  set_tying(config);
}

void build_deepseek(ConfigBuilder& config) {
  set_llama_sizes(config);
  // Latent attention may be stored as one KV head. key_length is then that of the compressed keys,
  // and *_mla are the model's own lengths.
  const std::int64_t rope = config.demand("rope.dimension_count");
  const auto key = config.find("attention.key_length_mla");
  const auto value = config.find("attention.value_length_mla");
  config.set("num_key_value_heads", config.demand("attention.head_count"));
  config.set("qk_rope_head_dim", rope);
  config.set("qk_nope_head_dim", (key ? *key : config.demand("attention.key_length")) - rope);
  config.set("v_head_dim", value ? *value : config.demand("attention.value_length"));
  config.copy("kv_lora_rank", "attention.kv_lora_rank");
  if (const auto rank = config.find("attention.q_lora_rank"); rank && *rank > 0) {
    config.set("q_lora_rank", *rank);
  } else {
    config.set_null("q_lora_rank");
  }
  config.copy("n_routed_experts", "expert_count");
  config.copy("num_experts_per_tok", "expert_used_count");
  config.copy("n_shared_experts", "expert_shared_count");
  config.copy("moe_intermediate_size", "expert_feed_forward_length");
  config.copy("first_k_dense_replace", "leading_dense_block_count");
}

void build_gpt_oss(ConfigBuilder& config) {
  set_llama_sizes(config);
  config.set("head_dim", head_dim(config));
  config.copy_if("sliding_window", "attention.sliding_window");
  config.copy("num_local_experts", "expert_count");
  config.copy("num_experts_per_tok", "expert_used_count");
}

struct GgufArchitecture {
  std::string_view name;        ///< general.architecture
  std::string_view model_type;  ///< Hugging Face's.
  void (*build)(ConfigBuilder&);
};
constexpr std::array<GgufArchitecture, 21> kArchitectures = {
    {{"llama", "llama", build_llama},
     {"mistral3", "mistral", build_with_head_dim},
     {"qwen2", "qwen2", build_plain},
     {"qwen2moe", "qwen2_moe", build_qwen_moe},
     {"qwen3", "qwen3", build_qwen3},
     {"qwen3moe", "qwen3_moe", build_qwen_moe},
     {"gemma", "gemma", build_with_head_dim},
     {"gemma2", "gemma2", build_with_head_dim},
     {"gemma3", "gemma3_text", build_with_head_dim},
     {"phi3", "phi3", build_phi3},
     {"granite", "granite", build_llama},
     {"olmo2", "olmo2", build_plain},
     {"command-r", "cohere", build_cohere},
     {"starcoder2", "starcoder2", build_starcoder2},
     {"glm4", "glm4", build_glm4},
     {"stablelm", "stablelm", build_stablelm},
     {"gpt2", "gpt2", build_gpt2},
     {"gptneox", "gpt_neox", build_gpt_neox},
     {"bloom", "bloom", build_bloom},
     {"falcon", "falcon", build_falcon},
     {"gpt-oss", "gpt_oss", build_gpt_oss}}};
constexpr GgufArchitecture kMixtral = {"llama", "mixtral", build_mixtral};
constexpr GgufArchitecture kDeepseekV2 = {"deepseek2", "deepseek_v2", build_deepseek};
constexpr GgufArchitecture kDeepseekV3 = {"deepseek2", "deepseek_v3", build_deepseek};

bool has_tensor_ending(const GgufFile& gguf, std::string_view ending) {
  return std::any_of(gguf.tensors.tensors.begin(), gguf.tensors.tensors.end(),
                     [ending](const TensorEntry& entry) { return entry.name.ends_with(ending); });
}

/// One architecture of llama.cpp may cover several model types of transformers.
Result<GgufArchitecture> architecture_of(const GgufFile& gguf) {
  const std::string name = gguf.text("general.architecture").value_or("");
  if (name == "llama" && gguf.integer("llama.expert_count").value_or(0) > 0) {
    return kMixtral;
  }
  if (name == kDeepseekV2.name) {
    return has_tensor_ending(gguf, ".exp_probs_b.bias") ? kDeepseekV3 : kDeepseekV2;
  }
  std::vector<std::string> known{std::string(kDeepseekV2.name)};
  for (const GgufArchitecture& one : kArchitectures) {
    if (one.name == name) {
      return one;
    }
    known.emplace_back(one.name);
  }
  std::string closest;
  for (const std::string& word : closest_words(name, known, 3)) {
    closest += (closest.empty() ? "" : ", ") + word;
  }
  return Error::invalid_input(gguf.path, "general.architecture",
                              name.empty() ? "nothing" : "'" + name + "'",
                              "a known architecture; the closest are " + closest);
}

/// The type in which the weights were trained, as far as the file shows it.
std::string_view stored_type(const GgufFile& gguf) {
  const std::vector<TypeTotal> totals = totals_by_type(gguf.tensors);
  const std::string type = totals.empty() ? "" : totals.front().type;
  return type == "F32" ? "float32" : (type == "F16" ? "float16" : "bfloat16");
}

}  // namespace

Result<std::string> config_of_gguf(const GgufFile& gguf) {
  const Result<GgufArchitecture> architecture = architecture_of(gguf);
  if (!architecture) {
    return architecture.error();
  }
  ConfigBuilder config(gguf, std::string(architecture->name));
  if (const auto parts = gguf.integer("split.count"); parts && *parts > 1) {
    config.fail("split.count", "one of " + std::to_string(*parts) + " parts", "a whole model",
                "join the parts with llama-gguf-split --merge");
  }
  config.set_text("model_type", architecture->model_type);
  config.set_text("torch_dtype", stored_type(gguf));
  architecture->build(config);
  if (config.error()) {
    return *config.error();
  }
  return config.text();
}

Result<ModelSpec> model_of_gguf(const GgufFile& gguf) {
  const Result<std::string> config = config_of_gguf(gguf);
  if (!config) {
    return config.error();
  }
  HfConfigOptions options;
  options.name = gguf.text("general.name").value_or("");
  Result<ModelSpec> model = parse_hf_config(config.value(), gguf.path, options);
  if (!model) {
    return std::move(model).error().with_note(
        "the keys are those of a config.json with the file's metadata");
  }
  return model;
}

}  // namespace headroom::ir
