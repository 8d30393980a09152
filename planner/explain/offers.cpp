#include "planner/explain/offers.h"

#include <algorithm>
#include <utility>

#include "planner/search/evaluator.h"
#include "runtimes/plan_check.h"

namespace headroom::plan {

Result<std::vector<Offer>> offers_of(const SearchQuestion& question, const PlanResult& found) {
  std::vector<Offer> offers;
  if (!found.best || !found.estimate || !found.estimate->time) {
    return offers;
  }
  const ir::ParallelPlan& best = found.best->plan;
  const double before = found.estimate->time->total.value();
  for (const OfferedChange& change : search_of(best).offered_changes(question.space, best)) {
    if (question.stop.asked()) {
      break;
    }
    const bool named = !question.space.constraints.of(change.alternative.axis).empty();
    if (named || !ir::check_plan(question.space.model, change.plan)) {
      continue;
    }
    Result<cost::StepEstimate> replayed =
        judged_replay(question, change.plan, question.budget, &question.machine);
    if (!replayed && !is_refusal(replayed.error())) {
      return std::move(replayed).error();
    }
    if (!replayed || !is_accepted(question, *replayed) || !replayed->time) {
      continue;
    }
    const double gain = 1 - replayed->time->total.value() / before;
    constexpr double kLeast = 0.005;  // Less is not worth a change.
    if (gain > kLeast) {
      offers.push_back({.alternative = change.alternative,
                        .plan = change.plan,
                        .estimate = std::move(replayed).value(),
                        .changes_training = change.changes_training,
                        .gain = gain});
    }
  }
  std::ranges::stable_sort(offers, std::ranges::greater(), &Offer::gain);
  return offers;
}

}  // namespace headroom::plan
