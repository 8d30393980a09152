// The types in which the recordings of families build their models. A configuration that names a
// type of its own ("torch_dtype") once built all variants in it.

#include <filesystem>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/support/configs.h"

namespace headroom::ir {
namespace {

/// Counts the types of the parameters that constructors make.
void count_types(const JsonValue& code, std::map<std::string, int>& types) {
  for (const JsonValue& instruction : *code.as_array()) {
    const JsonValue::Array& fields = *instruction.as_array();
    if (*fields[0].as_string() == "each") {
      for (const JsonValue& kind : *fields[2].find("kinds")->as_array()) {
        count_types(*kind.find("code"), types);
      }
    }
    if (*fields[0].as_string() != "op") {
      continue;
    }
    for (const JsonValue& output : *fields[3].as_array()) {
      const std::string* const target = (*output.as_array())[0].as_string();
      if (target != nullptr && target->starts_with("p:")) {
        ++types[*(*output.as_array())[1].as_string()];
      }
    }
  }
}

}  // namespace

TEST_CASE("recorded families: constructors make parameters in the type of their variant") {
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::kConfigs + "/families")) {
    const std::string path = entry.path().string();
    CAPTURE(path);
    const JsonValue family = parse_json(read_file(path).value(), path).value();
    for (const JsonValue& variant : *family.find("variants")->as_array()) {
      const JsonValue* const load = variant.find("load");
      const JsonValue* const linears = variant.find("linears");
      if (load == nullptr || linears != nullptr) {
        continue;
      }
      std::map<std::string, int> types;
      count_types(*load, types);
      const std::string& own = *variant.find("parameters")->as_string();
      for (const auto& [type, count] : types) {  // Some modules stay in fp32.
        CHECK((type == own || count < types[own]));
      }
      ++checked;
    }
  }
  CHECK(checked > 300);
}

}  // namespace headroom::ir
