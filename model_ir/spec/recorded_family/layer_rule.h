#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// The value at a path of a configuration, or its default; nothing if there is none.
using ConfigValueOf = std::function<std::optional<JsonValue>(std::string_view)>;

/// One of the layers of a stack.
struct LayerPlace {
  std::int64_t index = 0;
  std::int64_t count = 1;  ///< Layers of the stack.
};

/// The label of a layer, as JSON ("[\"full_attention\", true]"): the values of the features `by`, a
/// list of ["list", key], ["below", key], ["multiple", key or number, plus], ["in", key], ["first"]
/// and ["last"] (docs/recordings.md). Nothing if the configuration lacks what a feature reads.
[[nodiscard]] std::optional<std::string> layer_label(const JsonValue& by,
                                                     const ConfigValueOf& value_of,
                                                     const LayerPlace& layer);

}  // namespace headroom::ir
