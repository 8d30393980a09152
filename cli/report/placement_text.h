#pragma once

#include <string>
#include <vector>

#include "model_ir/json/json_value.h"
#include "planner/placement/stage_placement.h"

namespace headroom::cli {

/// What the stages of a plan could keep, run again or copy: the optimum beside the rules, a
/// paragraph for each stage. Empty if there is none.
[[nodiscard]] std::string placement_lines(const std::vector<plan::StagePlacement>& placements);

/// The same as `configs/schema/plan_answer.schema.json` has it.
[[nodiscard]] ir::JsonValue placement_json(const std::vector<plan::StagePlacement>& placements);

}  // namespace headroom::cli
