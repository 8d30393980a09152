#pragma once

#include <memory>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// The model of a recording: `recording` is set, dimensions come from the recording's config
/// where it has them, and everything that describes a family keeps its default.
///
/// Errors:  those of `read_recording`.
[[nodiscard]] Result<ModelSpec> read_recorded_model(const JsonValue& document,
                                                    std::string_view file);

}  // namespace headroom::ir
