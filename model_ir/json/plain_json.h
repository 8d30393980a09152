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

/// The value of the member `key` of a document that is an object; what comes after it is not read.
/// Nothing for what `read_plain_json` leaves to the other parser, or without the member.
[[nodiscard]] std::optional<JsonValue> read_plain_member(std::string_view text,
                                                         std::string_view key,
                                                         const JsonLimits& limits);

}  // namespace headroom::ir
