#pragma once

#include <limits>
#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::plan {

/// The result of a search for the front.
struct FrontAnswer {
  std::vector<RatedPlan> plans;  ///< By time.
  bool whole = false;            ///< Whether no plan of the front is missing.
  double gap = 0;                ///< `PlanResult::front_gap`.
  std::uint64_t evaluated = 0;
};

/// The Pareto front: all plans of the cells that fit and that no other plan dominates in time, peak
/// and GPUs.
///
/// Model:   branch and bound over cells, each with the least time, the lowest floor and the GPUs of
///          its plans. A cell or a plan is dropped if a known plan dominates its bounds; only the
///          peaks of the rest are evaluated. Cells are taken in turn from several orders that weigh
///          time against memory differently, so that both ends and the middle of the front are
///          known early. A fixed number of cells is taken at a time, so that neither the answer nor
///          the counts depend on the number of threads.
/// Errors:  those of the lowering.
[[nodiscard]] Result<FrontAnswer> search_front(const SearchState& state,
                                               const std::vector<BoundedCell>& cells);

}  // namespace headroom::plan
