#include "validators/measured/row_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model_ir/spec/task.h"
#include "runtimes/transformers/modeling.h"
#include "validators/measured/case_plan.h"
#include "validators/measured/case_reader.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

constexpr std::array<Word<std::string_view>, 8> kCaseRuntimes = {
    {{"transformers", "transformers"},
     {"transformers+ddp", "transformers"},
     {"transformers+bitsandbytes", "transformers"},
     {"transformers+fsdp1", "fsdp"},
     {"transformers+fsdp2", "fsdp"},
     {"torchtitan", "fsdp"},
     {"deepspeed", "deepspeed"},
     {"megatron", "megatron"}}};

std::string_view runtime_of(std::string_view framework) {
  for (const Word<std::string_view>& known : kCaseRuntimes) {
    if (known.word == framework) {
      return known.value;
    }
  }
  return {};
}

std::int64_t integer_or(const JsonValue& object, std::string_view key, std::int64_t absent) {
  const JsonValue* value = object.find(key);
  return value != nullptr ? value->as_integer().value_or(absent) : absent;
}

/// "tp8pp2": the degrees above 1, in that order; "none" if there are none.
std::string degrees(const JsonValue& setting) {
  std::string text;
  for (const std::string_view axis : {"tp", "pp", "cp", "ep"}) {
    if (const std::int64_t degree = integer_or(setting, axis, 1); degree > 1) {
      text += std::string(axis) + std::to_string(degree);
    }
  }
  return text.empty() ? "none" : text;
}

std::string case_parallel(const MeasuredRow& row, std::string_view runtime) {
  if (runtime == "deepspeed") {
    return "zero" + std::to_string(integer_or(row.setting, "zero", 2));
  }
  if (row.framework == "torchtitan") {
    const std::string spread = degrees(row.setting);
    const bool hybrid = integer_or(row.setting, "dp_replicate", 1) > 1;
    return spread != "none" ? spread : (hybrid ? "hsdp" : "fsdp2");
  }
  if (runtime == "megatron") {
    return degrees(row.setting);
  }
  const JsonValue* parallel = row.setting.find("parallel");
  const JsonValue* kind = parallel != nullptr ? parallel->find("kind") : nullptr;
  if (kind == nullptr || kind->as_string() == nullptr) {
    return "none";
  }
  const bool hybrid = integer_or(*parallel, "replicate", 1) > 1;
  return *kind->as_string() == "fsdp2" && hybrid ? "hsdp" : *kind->as_string();
}

std::string published_parallel(const JsonValue& setting) {
  std::string spread = degrees(setting);
  const JsonValue* stage = setting.find("zero_stage");
  if (spread != "none" || stage == nullptr || !stage->as_integer()) {
    return spread;
  }
  return integer_or(setting, "num_gpus", 1) > 1 ? "zero" + std::to_string(*stage->as_integer())
                                                : "none";
}

/// {bytes, cc, sms}; cc is 90 for compute capability 9.0.
void read_gpu(CaseReader& reader, RunSetting& setting) {
  CaseReader gpu(reader.take("gpu"), "case.gpu");
  setting.capacity =
      Bytes{gpu.integer("bytes", kUnnamedDevice.value(), {0, std::int64_t{1} << 50})};
  const std::int64_t capability = gpu.integer("cc", 90, {30, 999});
  setting.traits.compute_major = static_cast<int>(capability / 10);
  setting.traits.compute_minor = static_cast<int>(capability % 10);
  setting.traits.multiprocessors = static_cast<int>(gpu.integer("sms", 132, {1, 10'000}));
  setting.traits.memory_bytes = setting.capacity.value();
  reader.absorb(gpu.trouble());
}

/// Puts the head on the model that the case's `task` names.
std::optional<std::string> set_head(const JsonValue& setting, ir::ModelSpec& model) {
  const JsonValue* value = setting.find("task");
  const std::string* task = value != nullptr ? value->as_string() : nullptr;
  const std::string_view got = task != nullptr ? std::string_view(*task) : "causal";
  std::string_view expected = "causal";
  switch (model.architecture) {
    case ir::Architecture::kCausalLm:
      break;
    case ir::Architecture::kMaskedLm:
      expected = "masked";
      break;
    case ir::Architecture::kEncoderDecoder:
      expected = "seq2seq";
      break;
  }
  if (got == expected) {
    return std::nullopt;
  }
  if (const std::optional<ir::Task> head = ir::parse_task(got)) {
    if (ir::set_task(model, *head, model.labels)) {
      return std::nullopt;
    }
  }
  return "case.task: '" + std::string(got) + "' for a " + std::string(expected) + " model";
}

Planned plan_megatron(const MeasuredRow& row) {
  RunSetting setting{.model = {}, .plan = {}, .traits = {}, .capacity = {}};
  CaseReader reader(&row.setting, "case");
  read_gpu(reader, setting);
  read_megatron_case(reader, setting);
  if (const auto trouble = reader.trouble()) {
    return Skip{*trouble};
  }
  return setting;
}

/// torchtitan's names of model families, where they are not Hugging Face's.
constexpr std::array<Word<std::string_view>, 2> kTitanFamilies = {
    {{"llama3", "llama"}, {"qwen3", "qwen3"}}};

/// The configuration with its `model_type` in Hugging Face's words.
JsonValue titan_config(const JsonValue& config) {
  JsonValue::Object members = *config.as_object();
  for (ir::JsonMember& member : members) {
    const std::string* text = member.key == "model_type" ? member.value.as_string() : nullptr;
    for (const Word<std::string_view>& known : kTitanFamilies) {
      if (text != nullptr && *text == known.word) {
        member.value = JsonValue(std::string(known.value));
        break;
      }
    }
  }
  return JsonValue(std::move(members));
}

Planned plan_torchtitan(const MeasuredRow& row, const ModelReader& read_model) {
  const JsonValue* config = row.setting.find("config");
  if (config == nullptr || config->as_object() == nullptr) {
    return Skip{"case.config: absent"};
  }
  Result<ir::ModelSpec> model = read_model(ir::to_json(titan_config(*config)), "case.config");
  if (!model) {
    return skip_of(model.error());
  }
  RunSetting setting{.model = std::move(model).value(), .plan = {}, .traits = {}, .capacity = {}};
  CaseReader reader(&row.setting, "case");
  read_torchtitan_case(reader, setting);
  if (const auto trouble = reader.trouble()) {
    return Skip{*trouble};
  }
  return setting;
}

Planned plan_modelled(const MeasuredRow& row, std::string_view runtime,
                      const ModelReader& read_model) {
  const JsonValue* config = row.setting.find("config");
  if (config == nullptr || config->as_object() == nullptr) {
    return Skip{"case.config: absent"};
  }
  Result<ir::ModelSpec> model = read_model(ir::to_json(*config), "case.config");
  if (!model) {
    return skip_of(model.error());
  }
  RunSetting setting{.model = std::move(model).value(), .plan = {}, .traits = {}, .capacity = {}};
  CaseReader reader(&row.setting, "case");
  read_gpu(reader, setting);
  read_allocator(reader, "allocator", "", setting.plan.allocator);
  if (runtime == "deepspeed") {
    read_deepspeed_case(reader, setting.model.hidden, setting.plan);
    setting.rank = ir::Rank{static_cast<std::int32_t>(setting.plan.rank.value_or(0))};
  } else if (row.framework == "transformers+bitsandbytes") {
    read_quantised_case(reader, setting);
  } else {
    read_transformers_case(reader, setting);
  }
  // These rows were recorded where every value read back from the device is zero: a mask of ones
  // that a model makes itself then looks like padding.
  // Before 5.0 the mask itself was asked whether all of it is set.
  setting.plan.padded_batch =
      setting.plan.padded_batch ||
      (!row.on_gpu && ir::transformers::makes_padding_mask(setting.model.family) &&
       !setting.plan.runtime_version.starts_with("4."));
  if (!row.on_gpu && setting.plan.attention == ir::AttentionKind::kSdpa) {
    setting.plan.attention = ir::AttentionKind::kSdpaNoCudnn;  // The accounting device has none.
  }
  reader.absorb(set_head(row.setting, setting.model));
  if (const auto trouble = reader.trouble()) {
    return Skip{*trouble};
  }
  return setting;
}

}  // namespace

Skip not_modelled(std::string_view runtime) {
  return {"runtime " + std::string(runtime) + ": not modelled yet"};
}

Skip unknown_framework(const MeasuredRow& row) {
  return {row.framework.empty() ? "framework: not stated" : "framework: '" + row.framework + "'"};
}

Skip skip_of(const Error& error) {
  if (error.key == "runtime") {
    return not_modelled(error.got);
  }
  std::string text = to_text(error);
  text.resize(std::min(text.find('\n'), text.size()));
  constexpr std::string_view kPrefix = "error: ";
  return Skip{text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text};
}

RowLabels labels_of(const MeasuredRow& row) {
  if (row.form == RowForm::kPublished) {
    return {.runtime = std::string(published_runtime(row.framework).value_or("")),
            .parallel = published_parallel(row.setting)};
  }
  const std::string_view runtime = runtime_of(row.framework);
  return {.runtime = std::string(runtime), .parallel = case_parallel(row, runtime)};
}

Planned plan_of_case(const MeasuredRow& row, const ModelReader& read_model) {
  const std::string_view runtime = runtime_of(row.framework);
  if (runtime.empty()) {
    return unknown_framework(row);
  }
  if (!row.failure.empty()) {
    return Skip{"error: the measured run broke off"};
  }
  Planned planned = row.framework == "torchtitan" ? plan_torchtitan(row, read_model)
                    : runtime == "megatron"       ? plan_megatron(row)
                                                  : plan_modelled(row, runtime, read_model);
  if (auto* setting = std::get_if<RunSetting>(&planned); setting != nullptr && !row.on_gpu) {
    setting->plan.allocator.segments = ir::SegmentPlaces::kRising;  // The accounting device's.
  }
  return planned;
}

}  // namespace headroom::check
