#pragma once

#include <cstdint>
#include <string>

#include "model_ir/json/json_value.h"
#include "model_ir/spec/recording/code_context.h"
#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

/// Reads the entry [name, type, shape] of `inputs`.
[[nodiscard]] bool read_input(const JsonValue& value, const std::string& place,
                              RecordingFaults& faults, RecordedOutput& input);

/// Reads code whose first `given` values exist already. False, and a fault, if it is wrong.
[[nodiscard]] bool read_code(const JsonValue* value, const std::string& place,
                             RecordingFaults& faults, const CodeContext& context,
                             std::uint32_t given, RecordedCode& code, CodeNames& names);

/// Reads one of `bodies`.
[[nodiscard]] bool read_body(const JsonValue& value, const std::string& place,
                             RecordingFaults& faults, const CodeContext& context,
                             RecordedBody& body, CodeNames& names);

/// Reads one of `gradients`.
[[nodiscard]] bool read_gradient(const JsonValue& value, const std::string& place,
                                 RecordingFaults& faults, RecordedGradient& gradient);

}  // namespace headroom::ir
