#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/space/space_question.h"

namespace headroom::plan {

/// All cells of the space, in a fixed order.
///
/// Model:   each requested framework, in the order of the registry, walks its axes
///          (`FrameworkSearch::axes`). A plan that `ir::check_plan` refuses is not in the space.
[[nodiscard]] std::vector<Cell> cells_of(const SpaceQuestion& question);

[[nodiscard]] std::unique_ptr<const Choices> choices_of(const SpaceQuestion& question,
                                                        const Cell& cell);

/// The number of plans in all cells.
[[nodiscard]] std::uint64_t count_plans(const std::vector<Cell>& cells);

/// The values of the space's plans on `axis`, in order. For choices within cells (recomputation,
/// switches), those that the constraints allow.
[[nodiscard]] AxisValues values_in_space(const SpaceQuestion& question, Axis axis);

}  // namespace headroom::plan
