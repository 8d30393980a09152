#pragma once

#include <string>
#include <vector>

#include "model_ir/json/json_value.h"
#include "planner/placement/stage_placement.h"

namespace headroom::cli {

/// What the stages of a plan could keep, recompute or copy: the optimum beside the simple rules,
/// with a paragraph for each stage. Empty if there are no placements.
[[nodiscard]] std::string placement_lines(const std::vector<plan::StagePlacement>& placements);

/// The same in the form of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] ir::JsonValue placement_json(const std::vector<plan::StagePlacement>& placements);

}  // namespace headroom::cli
