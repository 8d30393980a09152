#pragma once

#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/recorded_family/config_values.h"

namespace headroom::ir {

/// Whether the code that a family's recording holds is that of a configuration: its values "fixed",
/// "lists" and "where" (docs/recordings.md).
///
/// Errors:  kInvalidInput, naming the first key of the configuration that is unlike, the recorded
///          value, and the command that records the model itself.
[[nodiscard]] Status check_family(const JsonValue& keys, const ConfigValues& values,
                                  std::string_view file);

/// The error of a configuration whose code was not recorded. `pointer` is a path with dots.
[[nodiscard]] Error unlike_family(std::string_view file, std::string_view path,
                                  std::string_view got, std::string_view wanted);

}  // namespace headroom::ir
