#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// The whole number at a path of a configuration ("text_config.hidden_size"); nothing if there is
/// none.
using DimensionOf = std::function<std::optional<std::int64_t>(std::string_view)>;

/// A size of a family's recording ("2*num_attention_heads*head_dim*B*S + hidden_size/2") as the
/// recording of one configuration has it: a whole number, or an expression of B, S and I. Terms are
/// joined by " + " and " - "; a factor is a number, a path of the configuration, B, S, I or
/// "ceil(S/d)"; "/" divides without remainder.
///
/// Nothing if it is of another form, names what the configuration does not have as a number, leaves
/// a remainder or exceeds 2^53.
[[nodiscard]] std::optional<JsonValue> size_of(std::string_view text,
                                               const DimensionOf& dimension_of);

}  // namespace headroom::ir
