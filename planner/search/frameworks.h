#pragma once

#include <span>
#include <vector>

#include "planner/search/search.h"

namespace headroom::plan {

/// The best plan of one framework.
struct FrameworkBest {
  const FrameworkSearch* framework = nullptr;
  PlanStatus status = PlanStatus::kUnknown;
  std::optional<RatedPlan> best;
  std::optional<cost::StepEstimate> estimate;  ///< The replay of the best.
  double bound = 0;                            ///< `PlanResult::bound` of its plans.
  bool late = false;                           ///< `PlanResult::late`.
  bool cut = false;                            ///< `PlanResult::cut`: there is no bound.
};

/// The best plan of each framework that has plans in the space of `question`, of which `found` is
/// the answer; the frameworks with the best plans come first.
///
/// Model:   frameworks other than that of `found.best` are searched one after the other, each in as
///          many cells as a comparison is worth. Where that is not enough for a proof, the status
///          says so and `bound` is what is proven.
/// Errors:  those of `search`.
[[nodiscard]] Result<std::vector<FrameworkBest>> best_of_frameworks(const SearchQuestion& question,
                                                                    const PlanResult& found,
                                                                    SearchRecords& records);

/// Makes the first of `rows` the answer if `found` is of a search that ended early, and the search
/// of its framework alone found a better plan of the same length of sequences. The bound stays, and
/// the gap is measured to it. A plan that fits at once gives way only to one that does. Nothing
/// happens where the answer has lists of plans (`front`, `replays`).
void take_better(const SearchQuestion& question, std::span<const FrameworkBest> rows,
                 PlanResult& found);

}  // namespace headroom::plan
