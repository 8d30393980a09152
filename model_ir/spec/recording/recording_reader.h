#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

/// The key that a model recording has and no configuration of a model, in quotation marks.
inline constexpr std::string_view kRecordingKey = "\"headroom_recording\"";

/// Reads a model recording. `file` names it in messages.
///
/// Errors:  kInvalidInput naming the place for what docs/recordings.md does not allow: unknown
///          types, names without an object, values that do not exist when they are used, sizes that
///          are no expressions, layers that call themselves.
[[nodiscard]] Result<std::shared_ptr<const Recording>> read_recording(const JsonValue& document,
                                                                      std::string_view file);

}  // namespace headroom::ir
