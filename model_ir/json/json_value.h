#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::ir {

struct JsonMember;

/// A JSON document of any form: for data whose keys are not known beforehand (rows of measured
/// runs, tensor names of a weight file). Readers of our own files use typed fields instead.
///
/// Members keep their order. Whole numbers that fit are exact 64-bit integers; all other numbers
/// are doubles.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;

  // Out of line, so that the code which copies and destroys trees is compiled once.
  JsonValue() noexcept;  ///< null
  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept;
  JsonValue& operator=(const JsonValue& other);
  JsonValue& operator=(JsonValue&& other) noexcept;
  ~JsonValue();
  explicit JsonValue(bool value);
  explicit JsonValue(std::int64_t value);
  explicit JsonValue(double value);
  explicit JsonValue(std::string value);
  explicit JsonValue(const char* value);
  explicit JsonValue(Array value);
  explicit JsonValue(Object value);

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(state_); }
  [[nodiscard]] std::optional<bool> as_bool() const;
  /// A whole number; a double counts if it is whole and below 2^53.
  [[nodiscard]] std::optional<std::int64_t> as_integer() const;
  [[nodiscard]] std::optional<double> as_number() const;
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&state_); }
  [[nodiscard]] const Array* as_array() const { return std::get_if<Array>(&state_); }
  [[nodiscard]] const Object* as_object() const { return std::get_if<Object>(&state_); }
  [[nodiscard]] Array* as_array() { return std::get_if<Array>(&state_); }
  [[nodiscard]] Object* as_object() { return std::get_if<Object>(&state_); }

  /// The member `key`; nullptr if it is absent or this is not an object.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> state_;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

/// Bounds on what `parse_json` accepts, so that hostile input cannot exhaust memory or stack.
struct JsonLimits {
  std::size_t depth = 64;                     ///< Nested arrays and objects.
  std::size_t values = std::size_t{1} << 26;  ///< In the whole document; each costs some 50 bytes.
};

/// Reads exactly one JSON document.
///
/// Errors:  kInvalidInput with `file` and the byte offset for what is not JSON (NaN included), is
///          nested too deeply, holds too many values, or names a key twice in one object.
[[nodiscard]] Result<JsonValue> parse_json(std::string_view text, std::string_view file,
                                           const JsonLimits& limits = {});

/// The value as JSON on one line; doubles in the shortest form that reads back the same.
[[nodiscard]] std::string to_json(const JsonValue& value);

}  // namespace headroom::ir
