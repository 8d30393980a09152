#include "planner/search/timely_search.h"

#include <algorithm>
#include <utility>

namespace headroom::plan {

Result<PlanResult> search_in_time(const SearchQuestion& question, SearchRecords& records) {
  constexpr int kMostRounds = 16;
  SearchQuestion narrowed = question;
  for (int round = 1;; ++round) {
    Result<PlanResult> found = search(narrowed, records);
    const bool timed = found && found->best && found->estimate && found->estimate->time;
    if (!timed || question.longest.value() <= 0) {
      return found;
    }
    const double replayed = found->estimate->time->total.value();
    const auto tokens = static_cast<double>(found->best->plan.workload.sequence);
    if (replayed <= tokens * question.longest.value()) {
      return found;
    }
    if (round == kMostRounds || question.stop.asked()) {
      PlanResult& result = found.value();
      result.best.reset();
      result.estimate.reset();
      result.front.clear();
      result.status = PlanStatus::kUnknown;
      result.late = true;
      return found;
    }
    narrowed.longest =
        Seconds{narrowed.longest.value() * (found->best->time.total().value() / replayed)};
  }
}

Result<PlanResult> search_without_emptying(const SearchQuestion& question, SearchRecords& records) {
  Result<PlanResult> found = search_in_time(question, records);
  const bool timed = found && found->best && found->estimate && found->estimate->time;
  const bool by_time = question.objective == Objective::kThroughput ||
                       question.objective == Objective::kCost ||
                       question.objective == Objective::kGpus;
  if (!timed || !by_time || question.any || question.front || question.stop.asked() ||
      found->estimate->at_once.value_or(1) >= question.confidence) {
    return found;
  }
  SearchQuestion calm = question;
  calm.at_once = true;
  Result<PlanResult> other = search_in_time(calm, records);
  if (!other || !other->best || !other->estimate || !other->estimate->time) {
    return found;
  }
  const auto cost_of = [](const PlanResult& result) {
    return result.estimate->time->total.value() * static_cast<double>(result.best->plan.world);
  };
  const bool as_few =
      question.objective != Objective::kGpus || other->best->plan.world == found->best->plan.world;
  const double ratio = question.objective == Objective::kCost
                           ? cost_of(*other) / cost_of(*found)
                           : other->estimate->time->total / found->estimate->time->total;
  if (!as_few || ratio > 1 + kMostSlower) {
    return found;
  }
  other->passed_over = std::max(0.0, 1 - 1 / ratio);
  if (other->status == PlanStatus::kFeasible && !found->cut && found->bound > other->bound) {
    other->bound = found->bound;  // Plans that fit at once are among those that fit.
    other->gap = std::min(other->gap, other->passed_over + found->gap);
    other->cut = false;
  }
  return other;
}

}  // namespace headroom::plan
