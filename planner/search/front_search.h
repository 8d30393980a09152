#pragma once

#include <limits>
#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::plan {

/// What a search for the front came to.
struct FrontAnswer {
  std::vector<RatedPlan> plans;  ///< By time.
  bool whole = false;            ///< No plan of the space is missing.
  double gap = 0;                ///< `PlanResult::front_gap`.
  std::uint64_t evaluated = 0;
};

/// All plans of the cells that fit and that no other beats in time, peak and GPUs at once.
///
/// Model:   branch and bound over cells, each with the least time, the lowest floor and the GPUs of
///          its plans. A cell, and in it a plan, is dropped where a known plan beats its bounds;
///          only the peak of what is left is worked out. Cells are taken by turns from orders that
///          weigh time against memory differently, so that both ends of the front and its middle
///          are known early; a fixed number of them at a time, so that neither the answer nor the
///          counts depend on the number of threads.
/// Errors:  those of the lowering.
[[nodiscard]] Result<FrontAnswer> search_front(const SearchState& state,
                                               const std::vector<BoundedCell>& cells);

}  // namespace headroom::plan
