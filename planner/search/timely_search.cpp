#include "planner/search/timely_search.h"

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

}  // namespace headroom::plan
