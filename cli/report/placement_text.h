#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model_ir/json/json_value.h"
#include "planner/placement/stage_placement.h"

namespace headroom::cli {

/// What the stages of a plan could keep, recompute or copy: the optimum beside the simple rules,
/// with a paragraph for each stage. Empty if there are no placements. `confidence` is the chance to
/// fit that the plan must have, which the rows do not need; `width` counts columns.
[[nodiscard]] std::string placement_lines(const std::vector<plan::StagePlacement>& placements,
                                          double confidence, std::size_t width);

/// The same in the form of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] ir::JsonValue placement_json(const std::vector<plan::StagePlacement>& placements);

}  // namespace headroom::cli
