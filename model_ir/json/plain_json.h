#pragma once

#include <optional>
#include <string_view>

#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// Reads a JSON document several times faster than the parser behind `parse_json`. Nothing for what
/// it leaves to that parser: text that is not JSON or beyond `limits`, characters outside ASCII, \u
/// and numbers that neither 64-bit integers nor doubles hold.
[[nodiscard]] std::optional<JsonValue> read_plain_json(std::string_view text,
                                                       const JsonLimits& limits);

}  // namespace headroom::ir
