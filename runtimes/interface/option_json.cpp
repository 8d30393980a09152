#include "runtimes/interface/option_json.h"

#include <array>
#include <string>
#include <utility>

namespace headroom::ir {
namespace {

/// The field's value as the reader sees it; nothing if it has another type, which the reader notes.
std::optional<JsonValue> read_value(const JsonObject& object, const OptionField& field) {
  const auto wrap = [](auto value) {
    return value ? std::optional<JsonValue>(JsonValue{*value}) : std::nullopt;
  };
  switch (field.kind) {
    case OptionKind::kSwitch:
      return wrap(object.optional_boolean(field.name));
    case OptionKind::kWhole:
    case OptionKind::kBytes:
      return wrap(object.optional_integer(field.name, field.wholes));
    case OptionKind::kReal:
      return wrap(object.optional_number(field.name, field.reals));
    case OptionKind::kWord:
    case OptionKind::kText:
      return wrap(object.optional_text(field.name));
    case OptionKind::kNames:
      return option_detail::json_of(object.texts_or_none(field.name));
  }
  return std::nullopt;
}

void read_option(const JsonObject& object, const OptionField& field, ParallelPlan& plan) {
  if (object.is_null(field.name)) {
    if (field.optional) {
      static_cast<void>(field.set(plan, JsonValue{}));
    }
    return;
  }
  if (!object.has(field.name)) {
    return;
  }
  const std::optional<JsonValue> value = read_value(object, field);
  if (value && (!accepts(field, *value) || !field.set(plan, *value))) {
    object.refuse(field.name, wanted_of(field), suggestion_of(field, *value));
  }
}

std::string_view type_name(OptionKind kind) {
  switch (kind) {
    case OptionKind::kSwitch:
      return "boolean";
    case OptionKind::kWhole:
    case OptionKind::kBytes:
      return "integer";
    case OptionKind::kReal:
      return "number";
    case OptionKind::kWord:
    case OptionKind::kText:
      return "string";
    case OptionKind::kNames:
      return "array";
  }
  return "string";
}

JsonValue type_json(std::string_view type, bool nullable) {
  if (!nullable) {
    return JsonValue{std::string(type)};
  }
  return JsonValue{JsonValue::Array{JsonValue{std::string(type)}, JsonValue{"null"}}};
}

/// The values that the schema enumerates: words, or a few whole numbers.
JsonValue::Array listed_values(const OptionField& field) {
  JsonValue::Array values;
  for (const std::string& word : field.words()) {
    values.push_back(field.kind == OptionKind::kWhole
                         ? JsonValue{static_cast<std::int64_t>(std::stoll(word))}
                         : JsonValue{word});
  }
  return values;
}

}  // namespace

JsonFields options_json(std::span<const OptionField> fields, const ParallelPlan& plan) {
  JsonFields json;
  for (const OptionField& field : fields) {
    json.add(field.name, field.get(plan));
  }
  return json;
}

JsonValue part_json(const PlanPart& part, const ParallelPlan& plan) {
  return part.has(plan) ? options_json(part.fields, plan).finish() : JsonValue{};
}

void read_options(const JsonObject& object, std::span<const OptionField> fields,
                  ParallelPlan& plan) {
  for (const OptionField& field : fields) {
    read_option(object, field, plan);
  }
}

void read_part(const JsonObject& root, const PlanPart& part, ParallelPlan& plan) {
  if (root.is_null(part.name)) {
    if (!part.always) {
      part.drop(plan);
    }
  } else if (const std::optional<JsonObject> object = root.optional_object(part.name)) {
    part.add(plan);
    read_options(*object, part.fields, plan);
  }
}

JsonValue option_schema(const OptionField& field) {
  JsonFields schema;
  if (field.words != nullptr && field.kind != OptionKind::kNames) {
    JsonValue::Array values = listed_values(field);
    if (field.optional) {
      values.emplace_back();
    }
    schema.add("enum", JsonValue{std::move(values)});
  } else {
    schema.add("type", type_json(type_name(field.kind), field.optional));
  }
  if (field.kind == OptionKind::kNames) {
    JsonFields items;
    if (field.words != nullptr) {
      items.add("enum", JsonValue{listed_values(field)});
    } else {
      items.add("type", "string");
    }
    schema.add("items", std::move(items));
  }
  const bool counts = field.kind == OptionKind::kWhole || field.kind == OptionKind::kBytes;
  if (counts && field.words == nullptr) {
    schema.add("minimum", field.wholes.least);
    schema.add("maximum", field.wholes.greatest);
  } else if (field.kind == OptionKind::kReal) {
    schema.add("minimum", field.reals.least);
    schema.add("maximum", field.reals.greatest);
  }
  if (!field.pattern.empty()) {
    schema.add("pattern", field.pattern);
  }
  schema.add("description", field.help);
  return std::move(schema).finish();
}

JsonValue part_schema(const PlanPart& part) {
  JsonFields properties;
  for (const OptionField& field : part.fields) {
    properties.add(field.name, option_schema(field));
  }
  JsonFields schema;
  schema.add("type", type_json("object", !part.always));
  schema.add("description", part.title);
  schema.add("properties", std::move(properties));
  schema.add("additionalProperties", false);
  return std::move(schema).finish();
}

}  // namespace headroom::ir
