// Reads runs of LitGPT's `finetune` on one GPU.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/interface/runs/published_words.h"
#include "runtimes/litgpt/measured_runs.h"

namespace headroom::ir::litgpt {
namespace {

/// lora_dropout of the scripts; config_hub's Gemma has 0.1.
constexpr double kLitgptLoraDropout = 0.05;

/// The Hugging Face model type whose configuration keys describe an architecture of LitGPT.
enum class Keys : std::uint8_t { kLlama, kNeox, kFalcon };
struct ArchitectureKeys {
  std::string_view architecture;
  const char* type;
  Keys keys;
};
// Phi is a GPT-NeoX block with a single norm for attention and MLP, and a bias on the head.
constexpr std::array<ArchitectureKeys, 9> kArchitectures = {
    {{"llama", "llama", Keys::kLlama},
     {"mistral", "mistral", Keys::kLlama},
     {"gemma", "gemma", Keys::kLlama},
     {"gemma2", "gemma2", Keys::kLlama},
     {"phi3", "phi3", Keys::kLlama},
     {"gpt-neox", "gpt_neox", Keys::kNeox},
     {"phi", "gpt_neox", Keys::kNeox},
     {"phi (gpt-neox style)", "gpt_neox", Keys::kNeox},
     {"falcon", "falcon", Keys::kFalcon}}};

const ArchitectureKeys* find_architecture(std::string_view architecture) {
  for (const ArchitectureKeys& form : kArchitectures) {
    if (form.architecture == architecture) {
      return &form;
    }
  }
  return nullptr;
}

JsonValue::Object dimensions(RunReader& model, Keys keys) {
  JsonValue::Object config;
  const auto copy = [&](std::string_view key, const char* name) {
    config.push_back({name, JsonValue{model.stated(key, kDimensionRange)}});
  };
  copy("layers", "num_hidden_layers");
  copy("hidden", "hidden_size");
  copy("heads", "num_attention_heads");
  copy("ffn", keys == Keys::kFalcon ? "ffn_hidden_size" : "intermediate_size");
  const std::int64_t kv_heads = model.stated("kv_heads", kDimensionRange);
  if (keys == Keys::kLlama) {
    config.push_back({"num_key_value_heads", JsonValue{kv_heads}});
    copy("head_dim", "head_dim");
  }
  if (keys == Keys::kFalcon) {
    config.push_back({"num_kv_heads", JsonValue{kv_heads}});
    config.push_back({"multi_query", JsonValue{kv_heads == 1}});
    config.push_back({"new_decoder_architecture", JsonValue{kv_heads > 1}});
  }
  const std::int64_t padded = model.integer("padded_vocab", 0, kDimensionRange);
  const std::int64_t vocabulary = model.stated("vocab", kDimensionRange);
  config.push_back({"vocab_size", JsonValue{padded != 0 ? padded : vocabulary}});
  return config;
}

/// Sets what a Hugging Face configuration cannot express.
void complete_model(std::string_view architecture, ModelSpec& model) {
  if (architecture.starts_with("phi") && architecture != "phi3") {
    model.residual = ResidualForm::kParallelOneNorm;
    model.head_bias = true;
    model.rope_fraction = 32.0 / static_cast<double>(model.head_dim);
  }
}

ModelSpec read_litgpt_model(RunReader& row) {
  RunReader model(row.take("model"), "model");
  const std::string architecture = model.text("arch", "");
  const ArchitectureKeys* form = find_architecture(architecture);
  if (form == nullptr) {
    row.fail("model.arch", "'" + architecture + "'");
    return {};
  }
  JsonValue::Object config = dimensions(model, form->keys);
  config.push_back({"model_type", JsonValue{std::string(form->type)}});
  config.push_back({"tie_word_embeddings", JsonValue{false}});
  model.expect_none({"moe", "mla"});
  constexpr std::array<std::string_view, 5> kAside = {"name", "params_b", "tied_embeddings",
                                                      "kv_heads", "head_dim"};
  model.ignore(kAside);
  row.absorb(model.trouble());
  ModelSpec spec = model_of_config(row, JsonValue{std::move(config)});
  if (!row.failed()) {
    complete_model(architecture, spec);
  }
  return spec;
}

/// Reads the number that follows `label` at the start of `text`, and removes both. Negative: no
/// number.
std::int64_t cut_number(std::string_view& text, std::string_view label) {
  if (!text.starts_with(label)) {
    return -1;
  }
  text.remove_prefix(label.size());
  std::int64_t value = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return fault == std::errc() ? value : -1;
}

std::string full_name(std::string_view target) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kShort = {
      {{"q", "query"}, {"k", "key"}, {"v", "value"}}};
  for (const auto& [letter, name] : kShort) {
    if (letter == target) {
      return std::string(name);
    }
  }
  return std::string(target);
}

/// Parses "LoRA r8 alpha16 on q,v (2023-10 script defaults)".
std::optional<LoraPlan> parse_lora(std::string_view text) {
  LoraPlan lora;
  lora.rank = cut_number(text, "LoRA r");
  const std::int64_t alpha = cut_number(text, " alpha");
  constexpr std::string_view kOn = " on ";
  if (lora.rank < 1 || alpha < 0 || !text.starts_with(kOn)) {
    return std::nullopt;
  }
  text = text.substr(kOn.size(), text.find(" (") == std::string_view::npos
                                     ? std::string_view::npos
                                     : text.find(" (") - kOn.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    lora.targets.push_back(full_name(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  lora.dropout = kLitgptLoraDropout;
  return lora;
}

/// Reads Fabric's BitsandbytesPrecision, with which the recipe uses PagedAdamW.
void read_bitsandbytes(RunReader& row, std::string_view words, ParallelPlan& plan) {
  const bool nested = words == "bnb.nf4-dq";
  if (!nested && words != "bnb.nf4" && words != "bnb.nf4 (4-bit base)") {
    row.fail("quant", "'" + std::string(words) + "'");
  }
  plan.quant = QuantPlan{.bits = 4, .double_quant = nested, .prepare_kbit = false};
  plan.optimizer.form = OptimizerForm::kPaged;
}

/// If the row states the longest example of its data, that example runs first, in its own
/// micro-batch, which has the peak.
void read_longest_example(RunReader& row, ParallelPlan& plan) {
  RunReader other(row.take("other"), "other");
  if (other.take("longest_example_tokens") != nullptr) {
    plan.workload.accumulation = 1;
    plan.workload.steps = 1;
  }
}

}  // namespace

void read_published_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/,
                        PublishedRun& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "litgpt";
  plan.world = row.stated("num_gpus", kWorldRange);
  plan.workload.micro_batch = row.stated("micro_batch", kBatchRange);
  plan.workload.sequence = row.stated("seq_len", kSequenceRange);
  plan.precision = row.lookup<Precision>("precision", published_precision);
  plan.optimizer = row.lookup<OptimizerPlan>("optimizer", published_optimizer);
  plan.attention = row.lookup<AttentionKind>("attention", published_attention);
  row.expect_none({"fsdp", "offload", "compile", "checkpointing"});
  if (const std::string words = row.text("quant", ""); !words.empty()) {
    read_bitsandbytes(row, words, plan);
  }
  refuse_several_gpus(row, plan);
  if (const std::string words = row.text("lora", ""); !words.empty()) {
    plan.lora = parse_lora(words);
    if (!plan.lora) {
      row.fail("lora", "'" + words + "'");
    }
  }
  row.expect_one({"tp", "pp", "cp", "ep"});
  plan.workload.accumulation = published_accumulation(row, plan);
  read_longest_example(row, plan);
  // LitGPT truncates examples at the sequence length; not every batch reaches it.
  run.has_short_batches = true;
  run.model = read_litgpt_model(row);
}

}  // namespace headroom::ir::litgpt
