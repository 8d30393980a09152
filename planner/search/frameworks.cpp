#include "planner/search/frameworks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/search/evaluator.h"
#include "planner/search/timely_search.h"
#include "planner/space/all_axes.h"

namespace headroom::plan {
namespace {

/// Cells of another framework into which the comparison looks: fewer where a cell is much work.
/// So many find a plan of every framework for 8B on four GPUs (3.3 s on two cores) and for 70B on
/// 128 (7.5 s, of which the first search takes 6 s).
std::uint64_t compared_cells(const SearchQuestion& question) {
  constexpr std::uint64_t kOfFew = 1024;
  constexpr std::uint64_t kOfMany = 128;
  constexpr std::int64_t kMany = 64;  // GPUs; plans of more are lowered for more micro-batches.
  const AxisValues& gpus = question.space.constraints.of(Axis::kGpus);
  const std::int64_t most = gpus.empty() ? question.space.base.world : gpus.back();
  return most > kMany ? kOfMany : kOfFew;
}

FrameworkBest row_of(const FrameworkSearch* framework, PlanResult result) {
  return {.framework = framework,
          .status = result.status,
          .best = std::move(result.best),
          .estimate = std::move(result.estimate),
          .bound = result.bound,
          .late = result.late,
          .cut = result.cut};
}

/// Plans first, by their worth under the objective, with the replayed time.
std::pair<bool, Worth> order_of(const SearchQuestion& question, const FrameworkBest& row) {
  if (!row.best) {
    return {true, Worth{}};
  }
  const RatedPlan& plan = *row.best;
  const bool replayed = row.estimate && row.estimate->time;
  const Seconds step = replayed ? row.estimate->time->total : plan.time.total();
  Worth worth = worth_of(question, plan.plan, step.value(), plan.peak);
  worth.number = 0;  // Numbers count within the space of each search.
  return {false, worth};
}

}  // namespace

Result<std::vector<FrameworkBest>> best_of_frameworks(const SearchQuestion& question,
                                                      const PlanResult& found,
                                                      SearchRecords& records) {
  std::vector<FrameworkBest> rows;
  const std::vector<const FrameworkSearch*> all = framework_searches();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool has_plans = std::ranges::find(found.frameworks, all[i]) != found.frameworks.end();
    if (!has_plans) {
      continue;
    }
    if (found.best && found.best->plan.runtime == all[i]->runtime()) {
      rows.push_back(row_of(all[i], found));
      continue;
    }
    if (question.stop.asked()) {
      FrameworkBest& row = rows.emplace_back();
      row.framework = all[i];
      row.cut = true;
      continue;
    }
    SearchQuestion own = question;
    own.space.constraints.of(Axis::kRuntime) = {static_cast<std::int64_t>(i)};
    own.front = false;
    own.replays = 1;
    own.progress = {};
    const std::uint64_t limit = compared_cells(question);
    own.work_limit = question.work_limit > 0 ? std::min(question.work_limit, limit) : limit;
    Result<PlanResult> result = search_without_emptying(own, records);
    if (!result && !is_refusal(result.error())) {
      return std::move(result).error();
    }
    if (result) {
      rows.push_back(row_of(all[i], std::move(result).value()));
    }
  }
  std::ranges::stable_sort(rows, {},
                           [&](const FrameworkBest& row) { return order_of(question, row); });
  return rows;
}

void take_better(const SearchQuestion& question, std::span<const FrameworkBest> rows,
                 PlanResult& found) {
  const bool has_lists = question.front || question.replays > 1;
  if (found.status != PlanStatus::kFeasible || !found.best || !found.estimate || has_lists) {
    return;
  }
  const bool at_once = found.estimate->at_once.value_or(1) >= question.confidence;
  const auto first = std::ranges::find_if(rows, [&](const FrameworkBest& row) {
    return row.best && row.estimate &&
           (!at_once || row.estimate->at_once.value_or(1) >= question.confidence) &&
           row.best->plan.workload.sequence == found.best->plan.workload.sequence;
  });
  if (first == rows.end() ||
      order_of(question, *first).second >= order_of(question, row_of(nullptr, found)).second) {
    return;
  }
  found.best = first->best;
  found.estimate = first->estimate;
  found.passed_over = 0;
  const double worth = order_of(question, *first).second.first;
  const double value = value_of(question.objective, worth, found.best->plan.workload.sequence);
  const bool most = worth < 0;  // The objective seeks the most of something.
  found.bound = found.cut ? 0 : most ? std::max(found.bound, value) : std::min(found.bound, value);
  found.gap = found.cut || value == 0 ? 1 : std::abs(value - found.bound) / std::abs(value);
}

}  // namespace headroom::plan
