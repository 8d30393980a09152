#include "planner/search/timely_search.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/search/evaluator.h"

namespace headroom::plan {
namespace {

/// Whether there is a best plan whose replay has a time.
bool is_timed(const PlanResult& result) {
  return result.best && result.estimate && result.estimate->time;
}

Worth replayed_worth(const SearchQuestion& question, const PlanResult& result) {
  return worth_of(question, result.best->plan, result.estimate->time->total.value(),
                  result.best->peak);
}

}  // namespace

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
  const bool by_time = question.objective == Objective::kThroughput ||
                       question.objective == Objective::kCost ||
                       question.objective == Objective::kGpus;
  if (!found || !is_timed(*found) || !by_time || question.any || question.front ||
      question.stop.asked() || found->estimate->at_once.value_or(1) >= question.confidence) {
    return found;
  }
  SearchQuestion calm = question;
  calm.at_once = true;
  Result<PlanResult> other = search_in_time(calm, records);
  if (!other || !is_timed(*other)) {
    return found;
  }
  const Worth before = replayed_worth(question, *found);
  const Worth after = replayed_worth(question, *other);
  const bool by_gpus = question.objective == Objective::kGpus;
  const double ratio = by_gpus ? after.second / before.second : after.first / before.first;
  if ((by_gpus && after.first != before.first) || ratio > 1 + kMostSlower) {
    return found;
  }
  other->passed_over = std::max(0.0, 1 - 1 / ratio);
  other->evaluated += found->evaluated;
  other->replays += found->replays;
  const std::int64_t length = other->best->plan.workload.sequence;
  if (other->status == PlanStatus::kFeasible && !found->cut &&
      length == found->best->plan.workload.sequence) {
    // Plans that fit at once are among those that fit.
    const double value = value_of(question.objective, after.first, length);
    other->bound = std::min(value, std::max(found->bound, other->bound));
    other->gap = (value - other->bound) / value;
    other->cut = false;
  }
  return other;
}

}  // namespace headroom::plan
