#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planner/space/space_question.h"

namespace headroom::plan {

/// A framework, or some of its values, that was asked for and of which the space has no plan.
struct LeftOut {
  const FrameworkSearch* framework = nullptr;
  /// The values of an axis that no plan of the framework has, although the user named them beside
  /// others; empty: the space has no plan of the framework at all.
  std::vector<Alternative> values;
  std::string reason;  ///< Lower case, without a full stop.
};

/// The cells of a space in a fixed order, and what it leaves out.
struct Space {
  std::vector<Cell> cells;
  std::vector<LeftOut> left_out;
};

/// Calls `take` with every cell of the space, in a fixed order, until it returns false. Returns
/// what the space leaves out, of the cells that were walked. A framework that refuses a value
/// leaves only plans with this value out.
///
/// Model:   each requested framework, in the order of the registry, walks its axes
///          (`FrameworkSearch::axes`). A plan that `ir::check_plan` refuses is not in the space.
std::vector<LeftOut> walk_cells(const SpaceQuestion& question,
                                const std::function<bool(Cell)>& take);

/// The space of the question, with all its cells.
[[nodiscard]] Space space_of(const SpaceQuestion& question);

/// Whether the space has any plan. The walk ends at its first cell.
[[nodiscard]] bool has_plans(const SpaceQuestion& question);

/// All cells of the space, in a fixed order.
[[nodiscard]] std::vector<Cell> cells_of(const SpaceQuestion& question);

[[nodiscard]] std::unique_ptr<const Choices> choices_of(const SpaceQuestion& question,
                                                        const Cell& cell);

/// The number of plans in all cells.
[[nodiscard]] std::uint64_t count_plans(const std::vector<Cell>& cells);

/// The values of the space's plans on `axis`, in order. For choices within cells (recomputation,
/// switches), those that the constraints allow.
[[nodiscard]] AxisValues values_in_space(const SpaceQuestion& question, Axis axis);

}  // namespace headroom::plan
