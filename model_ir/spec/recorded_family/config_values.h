#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "model_ir/json/json_value.h"
#include "model_ir/spec/recorded_family/dimension_expression.h"
#include "model_ir/spec/recorded_family/layer_rule.h"

namespace headroom::ir {

/// The values of a config.json as a recording of its family needs them: by path ("hidden_size",
/// "text_config.head_dim"), with the family's other names of keys and with defaults for what the
/// file leaves out.
///
/// `keys` is the part "keys" of the family (docs/recordings.md); both must outlive this.
class ConfigValues {
 public:
  ConfigValues(const JsonValue& config, const JsonValue& keys) : config_(config), keys_(keys) {}

  /// The value of the file, or the default. A null whose default is made of other keys counts as
  /// absent. Nothing if there is neither, or if a default needs what is not there.
  [[nodiscard]] std::optional<JsonValue> at(std::string_view path) const;

  /// The default of a list by layer, whatever the file says; nothing if it has none.
  [[nodiscard]] std::optional<JsonValue> made_by_default(std::string_view path) const;

  /// The value of `at` if it is a whole number.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view path) const;

  /// `number` and `at` as functions, which must not outlive this.
  /// Sizes were recorded of dimensions of 1 and more: without any, the code may be another.
  [[nodiscard]] DimensionOf dimensions() const {
    return [this](std::string_view path) {
      const std::optional<std::int64_t> value = number(path);
      return value.value_or(0) >= 1 ? value : std::nullopt;
    };
  }
  [[nodiscard]] ConfigValueOf lookup() const {
    return [this](std::string_view path) { return at(path); };
  }

  /// The paths that `number` found in the defaults alone, as constants.
  [[nodiscard]] const std::set<std::string>& defaulted() const { return defaulted_; }

  /// The value that the file itself has, under this or another name of the key; nullptr: none.
  [[nodiscard]] const JsonValue* given(std::string_view path) const;

 private:
  /// The part of the file that has the keys of `owner`, "" or "text_config.": some configurations
  /// take the text model's keys from the top of a file that has no such part.
  [[nodiscard]] std::string place_of(const std::string& owner, std::string_view name) const;
  [[nodiscard]] std::optional<JsonValue> made_once(std::string_view path,
                                                   const JsonValue& rule) const;
  [[nodiscard]] std::optional<JsonValue> made(const JsonValue& rule) const;
  [[nodiscard]] std::optional<JsonValue> list_by_rule(const JsonValue& rule) const;
  /// Whether the configuration has a value for every key that the features of a layer read.
  [[nodiscard]] bool has_keys_of(const JsonValue& features) const;

  const JsonValue& config_;
  const JsonValue& keys_;
  mutable std::set<std::string> defaulted_;
  /// What defaults have made; nothing while one is being made, so that none is made of itself.
  mutable std::map<std::string, std::optional<JsonValue>, std::less<>> made_;
};

}  // namespace headroom::ir
