#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/space/space_question.h"

namespace headroom::plan {

/// All cells, in a fixed order.
///
/// Model:   the frameworks that are asked for, in the order of the registry, each walk their axes
///          (`FrameworkSearch::axes`). A plan that `ir::check_plan` refuses is not in the space.
[[nodiscard]] std::vector<Cell> cells_of(const SpaceQuestion& question);

[[nodiscard]] std::unique_ptr<const Choices> choices_of(const SpaceQuestion& question,
                                                        const Cell& cell);

/// Number of plans.
[[nodiscard]] std::uint64_t count_plans(const std::vector<Cell>& cells);

/// The values that plans of the space have on `axis`, in order. Of choices within cells (what is
/// recomputed, switches) those that the constraints allow.
[[nodiscard]] AxisValues values_in_space(const SpaceQuestion& question, Axis axis);

}  // namespace headroom::plan
