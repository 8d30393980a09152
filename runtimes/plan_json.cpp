#include "runtimes/plan_json.h"

#include <utility>

#include "model_ir/json/json_writer.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/interface/option_json.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

/// The framework by its name. In files of earlier versions a second key named the model code of
/// torchtitan, torchtune or LitGPT, and the first one the framework that shards it.
void read_runtime(const JsonObject& root, std::string& runtime) {
  const std::vector<std::string> known = runtime_names();
  const auto take = [&](std::string_view key) {
    const std::optional<std::string> name = root.optional_text(key);
    if (!name) {
      return;
    }
    if (find_runtime(*name) == nullptr) {
      root.refuse(key, "one of " + join(known), suggestion(*name, known));
    } else if (key == "runtime" || *name != "transformers") {
      runtime = *name;
    }
  };
  take("runtime");
  take("model_code");
}

}  // namespace

ParallelPlan read_plan_object(const JsonObject& root, const ParallelPlan& base) {
  ParallelPlan plan = base;
  root.accept("$schema");
  // Read only to check it.
  static_cast<void>(root.integer("schema_version", {kSchemaVersion, kSchemaVersion}));
  read_runtime(root, plan.runtime);
  read_options(root, plan_options().fields.subspan(1), plan);  // All but the framework.
  read_part(root, optimizer_options(), plan);
  for (const PlanPart* const part : plan_parts()) {
    read_part(root, *part, plan);
  }
  return plan;
}

JsonValue plan_to_json(const ParallelPlan& plan) {
  JsonFields fields;
  fields.add("schema_version", kSchemaVersion);
  for (const OptionField& field : plan_options().fields) {
    fields.add(field.name, field.get(plan));
    if (field.name == "precision") {
      fields.add(optimizer_options().name, part_json(optimizer_options(), plan));
    }
  }
  for (const PlanPart* const part : plan_parts()) {
    fields.add(part->name, part_json(*part, plan));
  }
  return std::move(fields).finish();
}

Result<ParallelPlan> parse_plan(std::string_view text, std::string_view file,
                                const ParallelPlan& base) {
  const Result<JsonReader> reader = JsonReader::from_text(text, file);
  if (!reader) {
    return reader.error();
  }
  ParallelPlan plan = read_plan_object(reader->root(), base);
  if (Status status = reader->finish_refusing_unknown_keys(); !status) {
    return std::move(status).error();
  }
  return plan;
}

Result<ParallelPlan> read_plan(const std::string& path, const ParallelPlan& base) {
  const Result<std::string> text = read_file(path);
  return text ? parse_plan(*text, path, base) : Result<ParallelPlan>(text.error());
}

}  // namespace headroom::ir
