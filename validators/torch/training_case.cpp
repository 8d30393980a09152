#include "validators/torch/training_case.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "model_ir/json/json_writer.h"
#include "model_ir/spec/auto_class.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"

namespace headroom::check {
namespace {

/// Keys of a config.json that say how a checkpoint was stored, not what the model is.
constexpr std::array<std::string_view, 9> kOfTheCheckpoint = {
    "architectures", "auto_map",  "dtype",         "quantization_config",
    "torch_dtype",   "use_cache", "_name_or_path", "transformers_version",
    "num_labels"};

ir::JsonValue model_config(const ScriptModel& model) {
  ir::JsonFields fields;
  if (const ir::JsonValue::Object* const object = model.config.as_object()) {
    for (const ir::JsonMember& member : *object) {
      if (std::ranges::find(kOfTheCheckpoint, member.key) == kOfTheCheckpoint.end()) {
        fields.add(member.key, member.value);
      }
    }
  }
  if (model.spec.task != ir::Task::kLanguage) {
    fields.add("num_labels", model.spec.labels);
  }
  return std::move(fields).finish();
}

}  // namespace

Result<ir::JsonValue> training_case(const ScriptModel& model, const ir::ParallelPlan& plan) {
  ir::JsonFields about;
  about.add("name", model.name);
  about.add("class", ir::auto_class(model.spec));
  about.add("config", model_config(model));
  ir::JsonFields document;
  document.add("schema_version", 1);
  document.add("model", std::move(about));
  document.add("plan", ir::plan_to_json(plan));
  const ir::Runtime& runtime = ir::runtime_of(plan);
  for (const ir::ConfigurationFormat& format : runtime.configuration_formats()) {
    const Result<std::string> content = runtime.emit(model.spec, plan, format.name);
    if (!content) {
      return content.error();
    }
    Result<ir::JsonValue> parsed = ir::parse_json(*content, format.file);
    if (!parsed) {
      return std::move(parsed).error();
    }
    document.add(format.name, std::move(parsed).value());
  }
  return std::move(document).finish();
}

}  // namespace headroom::check
