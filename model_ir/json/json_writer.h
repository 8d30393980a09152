#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// Builds a JSON object field by field, in the order of the calls. Bytes become exact integers; a
/// number that is not finite becomes null. The caller must not repeat a key.
class JsonFields {
 public:
  JsonFields& add(std::string_view key, JsonValue value);
  JsonFields& add(std::string_view key, JsonFields fields);
  JsonFields& add(std::string_view key, std::string_view text);
  JsonFields& add(std::string_view key, const char* text);
  JsonFields& add(std::string_view key, const std::string& text);
  JsonFields& add(std::string_view key, Bytes bytes);
  JsonFields& add(std::string_view key, double number);
  JsonFields& add(std::string_view key, bool flag);
  template <std::integral Integer>
  JsonFields& add(std::string_view key, Integer number) {
    return add(key, JsonValue{static_cast<std::int64_t>(number)});
  }

  [[nodiscard]] JsonValue finish() && { return JsonValue{std::move(members_)}; }

 private:
  JsonValue::Object members_;
};

/// An array of strings.
[[nodiscard]] JsonValue json_texts(const std::vector<std::string>& texts);

/// The value for people, indented by two spaces per level. An object or array that contains no
/// other stays on one line if it fits into 100 columns. No final line end.
[[nodiscard]] std::string to_pretty_json(const JsonValue& value);

}  // namespace headroom::ir
