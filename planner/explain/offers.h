#pragma once

#include <vector>

#include "planner/search/search.h"

namespace headroom::plan {

/// The best plan with a value of a held axis.
struct Offer {
  Alternative alternative;
  ir::ParallelPlan plan;
  cost::StepEstimate estimate;
  bool changes_training = true;
  double gain = 0;  ///< Share by which the replayed step is shorter than that of the best plan.
};

/// Values that experts use and that searches hold, because they change what is trained or take long
/// to search: those that make the replay of the best plan of `found` shorter
/// (`FrameworkSearch::offered_changes`). A search with the value may gain more.
///
/// Errors:  those of `cost::estimate`, except refusals of a plan.
[[nodiscard]] Result<std::vector<Offer>> offers_of(const SearchQuestion& question,
                                                   const PlanResult& found);

}  // namespace headroom::plan
