#include "runtimes/plan_schema.h"

#include <string>
#include <utility>
#include <vector>

#include "runtimes/interface/common_options.h"
#include "runtimes/interface/option_json.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::ir {
namespace {

JsonFields one_of_names(std::string_view description) {
  JsonFields schema;
  schema.add("enum", json_texts(runtime_names()));
  schema.add("description", description);
  return schema;
}

JsonFields properties() {
  JsonFields all;
  JsonFields text;
  text.add("type", "string");
  all.add("$schema", std::move(text));
  JsonFields version;
  version.add("const", 1);
  all.add("schema_version", std::move(version));
  for (const OptionField& field : plan_options().fields) {
    if (field.name == "runtime") {
      all.add(field.name, one_of_names(field.help));
    } else {
      all.add(field.name, option_schema(field));
    }
  }
  all.add("model_code",
          one_of_names("Older spelling of runtime: the framework whose model code runs."));
  all.add(optimizer_options().name, part_schema(optimizer_options()));
  for (const PlanPart* const part : plan_parts()) {
    all.add(part->name, part_schema(*part));
  }
  return all;
}

}  // namespace

JsonValue plan_schema() {
  JsonFields schema;
  schema.add("$schema", "https://json-schema.org/draft/2020-12/schema");
  schema.add("title", "A plan");
  schema.add("description",
             "Everything that can be chosen about a run. An absent key takes its default; null "
             "removes a part.");
  schema.add("type", "object");
  schema.add("properties", properties());
  schema.add("required", json_texts({"schema_version"}));
  schema.add("additionalProperties", false);
  return std::move(schema).finish();
}

JsonValue plan_file_schema() {
  const auto typed = [](JsonValue type, std::string_view description) {
    JsonFields field;
    field.add("type", std::move(type));
    field.add("description", description);
    return field;
  };
  const JsonValue text_or_none = json_texts({"string", "null"});
  JsonFields all;
  all.add("$schema", typed(JsonValue{"string"}, "Ignored."));
  JsonFields version;
  version.add("const", 1);
  all.add("schema_version", std::move(version));
  all.add("model", typed(text_or_none,
                         "The model as MODEL names it: a name of the catalogue, or the path of a "
                         "config.json or .gguf file. Null: the command line names it."));
  all.add("device", typed(text_or_none,
                          "The GPU as --gpu names it: a name of the catalogue, or the path of a "
                          ".json file. Null: the command line names it."));
  all.add("node", typed(text_or_none, "The node type as --node names it; null: the GPU's own."));
  JsonFields value;
  value.add("type", "string");
  JsonFields assumptions = typed(JsonValue{"object"},
                                 "Other options that the answer depends on, by their names without "
                                 "dashes, with their values as text: budget, network, task. A "
                                 "flag has the value \"\".");
  assumptions.add("additionalProperties", value);
  all.add("assumptions", std::move(assumptions));
  JsonFields search = typed(json_texts({"object", "null"}),
                            "Options of the search that found the plan, as they were typed; null: "
                            "the plan was not searched. Verbs that search take them.");
  search.add("additionalProperties", std::move(value));
  all.add("search", std::move(search));
  JsonFields plan;
  plan.add("$ref", "plan.schema.json");
  all.add("plan", std::move(plan));
  JsonFields schema;
  schema.add("$schema", "https://json-schema.org/draft/2020-12/schema");
  schema.add("title", "A plan file");
  schema.add("description",
             "A model, a GPU, a plan and what is assumed besides. headroom plan --output writes "
             "it; --plan of every verb reads it, as it does a document of --json, which holds it "
             "under plan_file. The number of GPUs is the plan's gpus.");
  schema.add("type", "object");
  schema.add("properties", std::move(all));
  schema.add("required", json_texts({"schema_version", "plan"}));
  schema.add("additionalProperties", false);
  return std::move(schema).finish();
}

}  // namespace headroom::ir
