#include "validators/measured/published_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "validators/measured/case_plan.h"
#include "validators/measured/case_reader.h"
#include "validators/measured/published_foundry.h"
#include "validators/measured/published_mcore.h"
#include "validators/measured/published_reader.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

/// Until PyTorch 2.0 zero_grad left gradients of zeros, which lie beside the activations of the
/// next step. Source: pytorch/pytorch release notes of 2.0.0, backwards incompatible changes:
/// gradients are set to None by default.
constexpr std::string_view kGradientsFreedSince = "2023-03";

void read_published_lora(CaseReader& row, ir::ParallelPlan& plan) {
  const JsonValue* value = row.take("lora");
  if (value == nullptr ||
      (value->as_string() != nullptr && *value->as_string() == "full fine-tuning")) {
    return;
  }
  if (value->as_object() == nullptr) {
    row.fail("lora", ir::to_json(*value));
    return;
  }
  CaseReader lora(value, "lora");
  constexpr std::array<std::string_view, 1> kAside = {"lora_alpha"};
  lora.ignore(kAside);
  for (const auto& [key, wanted] : {std::pair{"peft_type", "LORA"}, std::pair{"bias", "none"}}) {
    if (const std::string got = lora.text(key, wanted); got != wanted) {
      lora.fail(key, "'" + got + "'");
    }
  }
  if (const JsonValue* start = lora.take("init_lora_weights");
      start != nullptr && start->as_bool() != true) {
    lora.fail("init_lora_weights", ir::to_json(*start));
  }
  plan.lora = ir::LoraPlan{.rank = lora.integer("r", 8, {1, 1 << 14}),
                           .dropout = lora.number("lora_dropout", 0),
                           .dora = lora.flag("use_dora", false),
                           .rank_stabilised = lora.flag("use_rslora", false),
                           .targets = read_targets(lora, "target_modules")};
  row.absorb(lora.trouble());
}

void read_published_spread(CaseReader& row, std::string_view runtime, ir::ParallelPlan& plan) {
  plan.runtime = runtime == "deepspeed" ? "deepspeed" : "transformers";
  plan.world = stated(row, "num_gpus", kWorldRange);
  if (runtime == "deepspeed") {
    ir::ZeroPlan zero;
    if (row.take("zero_stage") == nullptr) {
      row.fail("zero_stage", "not stated");
    }
    zero.stage = static_cast<int>(row.integer("zero_stage", 0, {0, 3}));
    plan.zero = zero;
  } else if (plan.world > 1) {
    row.fail("num_gpus", std::to_string(plan.world) + " without a stated way to spread");
  }
  for (const std::string_view axis : {"tp", "pp", "cp", "ep"}) {
    if (row.integer(axis, 1, kWorldRange) != 1) {
      row.fail(axis, "more than 1");
    }
  }
  plan.accumulation = published_accumulation(row, plan);
}

void read_published_training(CaseReader& row, ir::ParallelPlan& plan) {
  plan.micro_batch = stated(row, "micro_batch", kBatchRange);
  plan.sequence = stated(row, "seq_len", kSequenceRange);
  plan.precision = lookup<ir::Precision>(row, "precision", published_precision);
  plan.optimizer = lookup<ir::OptimizerPlan>(row, "optimizer", published_optimizer);
  plan.recompute = lookup<ir::Recompute>(row, "checkpointing", published_checkpointing);
  plan.attention = lookup<ir::AttentionKind>(row, "attention", published_attention);
  if (plan.attention == ir::AttentionKind::kSdpa) {
    plan.attention = ir::AttentionKind::kSdpaNoCudnn;  // PyTorch before 2.10.
  }
  read_published_lora(row, plan);
  for (const std::string_view key : {"quant", "offload", "compile", "fsdp"}) {
    expect_none(row, key);
  }
}

std::string words_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : "";
}

std::string architecture_of(const MeasuredRow& row) {
  const JsonValue* model = row.setting.find("model");
  return model != nullptr ? words_of(*model, "arch") : "";
}

/// `framework_version` is a date where no release is named.
void refuse_old_release(CaseReader& row) {
  const std::string version = row.text("framework_version", "");
  if (version.starts_with("20") && version < kGradientsFreedSince) {
    row.fail("framework_version", "'" + version + "', before PyTorch 2.0, which keeps gradients");
  }
}

/// "row.precision: ..." as "precision: ...": the contract names keys of the row.
Skip skip_from(std::string trouble) {
  constexpr std::string_view kPrefix = "row.";
  return Skip{trouble.starts_with(kPrefix) ? trouble.substr(kPrefix.size()) : std::move(trouble)};
}

std::optional<Skip> refuse_early(const MeasuredRow& row, std::string_view runtime) {
  if (runtime.empty()) {
    return unknown_framework(row);
  }
  if (row.measured_raw.is_null()) {
    return Skip{"measured: nothing"};
  }
  const std::string word = words_of(row.setting, "mode");
  if (word != "train" && word != "finetune") {
    return Skip{"mode: '" + word + "'"};
  }
  if (auto skip = unknown_measure(row.measured_raw)) {
    return skip;
  }
  return std::nullopt;
}

}  // namespace

PublishedPlanned on_device(const CaseReader& reader, std::string_view gpu, const ScoreTools& tools,
                           PublishedSetting setting) {
  if (const auto trouble = reader.trouble()) {
    return skip_from(*trouble);
  }
  Result<cost::DeviceSpec> device = tools.find_device(std::string(gpu));
  if (!device) {
    return skip_of(device.error());
  }
  setting.device = std::move(device).value();
  return setting;
}

std::string published_config(CaseReader& row) {
  CaseReader model(row.take("model"), "model");
  const std::string architecture = model.text("arch", "");
  const auto type = lookup<std::string_view>(model, "arch", published_model_type);
  struct Key {
    std::string_view row;
    const char* config;
  };
  constexpr std::array<Key, 7> kKeys = {{{"layers", "num_hidden_layers"},
                                         {"hidden", "hidden_size"},
                                         {"heads", "num_attention_heads"},
                                         {"kv_heads", "num_key_value_heads"},
                                         {"head_dim", "head_dim"},
                                         {"ffn", "intermediate_size"},
                                         {"vocab", "vocab_size"}}};
  JsonValue::Object config{{"model_type", JsonValue{std::string(type)}}};
  for (const Key& key : kKeys) {
    config.push_back({key.config, JsonValue{stated(model, key.row, kDimensionRange)}});
  }
  const bool tied_stated = model.take("tied_embeddings") != nullptr;
  if (const auto head = published_class(architecture)) {  // Nothing is tied to a classifier.
    config.push_back({"architectures", JsonValue{JsonValue::Array{JsonValue{std::string(*head)}}}});
  } else if (!tied_stated) {
    model.fail("tied_embeddings", "not stated");
  }
  config.push_back({"tie_word_embeddings", JsonValue{model.flag("tied_embeddings", false)}});
  expect_none(model, "moe");
  expect_none(model, "mla");
  constexpr std::array<std::string_view, 4> kAside = {"name", "params_b", "qk_norm",
                                                      "padded_vocab"};
  model.ignore(kAside);
  row.absorb(model.trouble());
  return ir::to_json(JsonValue{std::move(config)});
}

void expect_none(CaseReader& row, std::string_view key) {
  const JsonValue* value = row.take(key);
  const bool none = value == nullptr || value->as_bool() == false ||
                    (value->as_string() != nullptr && *value->as_string() == "none");
  if (!none) {
    row.fail(key, ir::to_json(*value));
  }
}

std::int64_t stated(CaseReader& row, std::string_view key, CaseReader::Range range) {
  const std::int64_t value = row.integer(key, 0, range);
  if (value == 0) {
    row.fail(key, "not stated");
  }
  return value;
}

std::int64_t published_accumulation(CaseReader& row, const ir::ParallelPlan& plan) {
  const std::int64_t batch = row.integer("global_batch", 0, {1, 1 << 24});
  const std::int64_t micro_batches = row.integer("num_microbatches", 0, {1, 1 << 16});
  const std::int64_t step = std::max<std::int64_t>(1, plan.micro_batch * plan.world);
  return micro_batches != 0 ? micro_batches : std::max<std::int64_t>(1, batch / step);
}

void ignore_remarks(CaseReader& row) {
  constexpr std::array<std::string_view, 14> kAside = {"id",
                                                       "framework",
                                                       "framework_version",
                                                       "mode",
                                                       "optimizer_state_dtypes",
                                                       "other",
                                                       "notes",
                                                       "dp",
                                                       "sequence_parallel",
                                                       "vpp",
                                                       "etp",
                                                       "completeness",
                                                       "zero_stage",
                                                       "source"};
  row.ignore(kAside);
}

PublishedPlanned plan_of_published(const MeasuredRow& row, const ScoreTools& tools) {
  const std::string runtime = labels_of(row).runtime;
  if (row.framework.starts_with("llm-foundry")) {
    return plan_of_foundry_row(row, tools);
  }
  if (auto skip = refuse_early(row, runtime)) {
    return *skip;
  }
  if (runtime == "megatron") {
    return plan_of_mcore_row(row, tools);
  }
  PublishedSetting setting;
  CaseReader reader(&row.setting, "row");
  const bool litgpt = runtime == "litgpt";
  std::string config;
  if (litgpt) {
    config = read_litgpt_row(reader, setting.plan);
  } else if (row.framework.starts_with("Qwen finetune.py")) {
    config = read_qwen_row(reader, setting.plan);
  } else if (runtime == "torchtune") {
    config = read_torchtune_row(reader, setting.plan);
  } else if (runtime == "fsdp") {
    config = read_torchtitan_row(reader, setting.plan);
  } else {
    read_published_training(reader, setting.plan);
    read_published_spread(reader, runtime, setting.plan);
    if (runtime == "transformers") {
      refuse_old_release(reader);
    }
    config = published_config(reader);
  }
  const auto gpu = lookup<std::string_view>(reader, "gpu", published_device);
  ignore_remarks(reader);
  if (const auto trouble = reader.trouble()) {
    return skip_from(*trouble);
  }
  Result<ir::ModelSpec> model = tools.read_model(config, "model");
  if (!model) {
    return skip_of(model.error());
  }
  setting.model = std::move(model).value();
  if (litgpt) {
    complete_litgpt_model(architecture_of(row), setting.model);
  }
  return on_device(reader, gpu, tools, std::move(setting));
}

}  // namespace headroom::check
