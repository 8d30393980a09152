#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model_ir/json/json_value.h"
#include "planner/placement/stage_placement.h"
#include "planner/search/search_question.h"

namespace headroom::cli {

/// What the text of placements needs besides them.
struct PlacementContext {
  const plan::PlanResult& result;  ///< The search that found the plan.
  double confidence = 0.9;         ///< Least chance to fit of the plan, which the rows do not need.
  std::size_t width = 80;          ///< Columns of the text.
};

/// What the stages of a plan could keep, recompute or copy: the optimum beside the simple rules,
/// with a paragraph for each stage. Empty if there are no placements.
[[nodiscard]] std::string placement_lines(const std::vector<plan::StagePlacement>& placements,
                                          const PlacementContext& context);

/// The same in the form of `configs/schema/plan_answer.schema.json`.
[[nodiscard]] ir::JsonValue placement_json(const std::vector<plan::StagePlacement>& placements);

}  // namespace headroom::cli
