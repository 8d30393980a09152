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

}  // namespace headroom::ir
