#include <string>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/arch/source_tree.h"

namespace headroom::arch {
namespace {

ir::JsonValue json_of(const std::string& file) {
  Result<ir::JsonValue> value = ir::parse_json(text_of(file), file);
  if (!value) {
    FAIL(to_text(value.error()));
  }
  return std::move(value).value();
}

bool is_filled(const ir::JsonValue* value) {
  return value != nullptr && value->as_string() != nullptr && !value->as_string()->empty();
}

/// Checks that every number and truth value below `value` stands in an object with a "source".
void check_sources(const ir::JsonValue& value, const std::string& pointer, bool has_source) {
  if (const ir::JsonValue::Object* members = value.as_object()) {
    for (const ir::JsonMember& member : *members) {
      check_sources(member.value, pointer + "/" + member.key, is_filled(value.find("source")));
    }
  } else if (const ir::JsonValue::Array* items = value.as_array()) {
    for (const ir::JsonValue& item : *items) {
      check_sources(item, pointer, has_source);
    }
  } else if (value.as_number() || value.as_bool()) {
    CAPTURE(pointer);
    CHECK(has_source);
  }
}

}  // namespace

TEST_CASE("catalogue: every figure of a GPU, link or node stands beside its source") {
  for (const std::string& file :
       files_below({{"configs/hardware", "configs/networks"}, {".json"}})) {
    CAPTURE(file);
    check_sources(json_of(file), "", false);
  }
}

TEST_CASE(
    "catalogue: every model says where its dimensions and its parameter count are published") {
  for (const std::string& file : files_below({{"configs/models"}, {".json"}})) {
    if (file.ends_with("/aliases.json")) {
      continue;
    }
    CAPTURE(file);
    const ir::JsonValue entry = json_of(file);
    const ir::JsonValue* const source = entry.find("source");
    REQUIRE(source != nullptr);
    CHECK(is_filled(source->find("config")));
    const bool waits = file.find("/unanswered/") != std::string::npos;  // For its family.
    CHECK(is_filled(source->find("parameters")) != waits);
  }
}

TEST_CASE("catalogue: every schema is JSON and describes itself") {
  for (const std::string& file : files_below({{"configs/schema"}, {".json"}})) {
    CAPTURE(file);
    const ir::JsonValue schema = json_of(file);
    CHECK(is_filled(schema.find("title")));
    CHECK(is_filled(schema.find("$schema")));
  }
}

}  // namespace headroom::arch
