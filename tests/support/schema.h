#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/support/cli.h"

namespace headroom::test {

/// Finds where a value violates a JSON schema. It knows the few keywords that our schemas use. An
/// empty result means that the value is valid.
///
/// Ignores: patterns, and everything below a reference to another file.
class SchemaCheck {
 public:
  static std::vector<std::string> faults(const ir::JsonValue& schema, const ir::JsonValue& value) {
    SchemaCheck check;
    check.visit(schema, value, "");
    return check.faults_;
  }

 private:
  void visit(const ir::JsonValue& schema, const ir::JsonValue& value, const std::string& at) {
    if (const ir::JsonValue* type = schema.find("type");
        type != nullptr && !is_type(*type, value)) {
      faults_.push_back(at + ": type");
      return;
    }
    if (const ir::JsonValue* words = schema.find("enum");
        words != nullptr && !is_one(*words, value)) {
      faults_.push_back(at + ": " + ir::to_json(value) + " is none of the words");
    }
    if (const ir::JsonValue* one = schema.find("const");
        one != nullptr && ir::to_json(*one) != ir::to_json(value)) {
      faults_.push_back(at + ": not " + ir::to_json(*one));
    }
    visit_bounds(schema, value, at);
    visit_members(schema, value, at);
    const ir::JsonValue* items = schema.find("items");
    if (items != nullptr && value.as_array() != nullptr) {
      for (const ir::JsonValue& item : *value.as_array()) {
        visit(*items, item, at + "/-");
      }
    }
  }

  void visit_bounds(const ir::JsonValue& schema, const ir::JsonValue& value,
                    const std::string& at) {
    const auto number = value.as_number();
    const ir::JsonValue* least = schema.find("minimum");
    const ir::JsonValue* most = schema.find("maximum");
    if (number && ((least != nullptr && *number < least->as_number()) ||
                   (most != nullptr && *number > most->as_number()))) {
      faults_.push_back(at + ": " + ir::to_json(value) + " is out of bounds");
    }
  }

  void visit_members(const ir::JsonValue& schema, const ir::JsonValue& value,
                     const std::string& at) {
    const ir::JsonValue* properties = schema.find("properties");
    if (properties == nullptr || value.as_object() == nullptr) {
      return;
    }
    for (const ir::JsonMember& member : *value.as_object()) {
      const ir::JsonValue* known = properties->find(member.key);
      if (known == nullptr) {
        faults_.push_back(at + "/" + member.key + ": not in the schema");
      } else {
        visit(*known, member.value, at + "/" + member.key);
      }
    }
    const ir::JsonValue* required = schema.find("required");
    for (const ir::JsonValue& key :
         required != nullptr ? *required->as_array() : ir::JsonValue::Array{}) {
      if (value.find(*key.as_string()) == nullptr) {
        faults_.push_back(at + "/" + *key.as_string() + ": missing");
      }
    }
  }

  static bool is_type(const ir::JsonValue& type, const ir::JsonValue& value) {
    if (const ir::JsonValue::Array* types = type.as_array()) {
      return std::any_of(types->begin(), types->end(),
                         [&](const ir::JsonValue& one) { return is_type(one, value); });
    }
    const std::string& name = *type.as_string();
    return (name == "null" && value.is_null()) ||
           (name == "object" && value.as_object() != nullptr) ||
           (name == "array" && value.as_array() != nullptr) ||
           (name == "string" && value.as_string() != nullptr) ||
           (name == "boolean" && value.as_bool().has_value()) ||
           (name == "integer" && value.as_integer().has_value()) ||
           (name == "number" && value.as_number().has_value());
  }

  static bool is_one(const ir::JsonValue& words, const ir::JsonValue& value) {
    return std::any_of(
        words.as_array()->begin(), words.as_array()->end(),
        [&](const ir::JsonValue& word) { return ir::to_json(word) == ir::to_json(value); });
  }

  std::vector<std::string> faults_;
};

inline ir::JsonValue read_schema(const std::string& name) {
  const std::string path = source_file("configs/schema/" + name);
  return ir::parse_json(read_file(path).value(), path).value();
}

}  // namespace headroom::test
