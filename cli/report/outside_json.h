#pragma once

#include <vector>

#include "costmodel/outside_memory.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

/// The memory that a process takes outside PyTorch's allocator, as an array with the name, bytes,
/// upper bound, basis and source of each term.
[[nodiscard]] ir::JsonValue outside_json(const std::vector<cost::OutsideTerm>& terms);

}  // namespace headroom::cli
