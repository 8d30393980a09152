#include "planner/search/evaluator.h"

#include <algorithm>
#include <limits>

#include "costmodel/expert_load.h"
#include "costmodel/outside_memory.h"
#include "costmodel/routed_estimate.h"
#include "planner/space/all_axes.h"

namespace headroom::plan {

Worth worth_of(const SearchQuestion& question, const ir::ParallelPlan& plan, double seconds,
               Bytes peak) {
  const auto gpus = static_cast<double>(plan.world);
  const double per_token = seconds / static_cast<double>(plan.workload.sequence);
  if (question.longest.value() > 0 && per_token > question.longest.value()) {
    return {.late = true, .first = per_token};
  }
  switch (question.objective) {
    case Objective::kThroughput:
      return {.first = per_token};
    case Objective::kGpus:
      return {.first = gpus, .second = seconds};
    case Objective::kMemory:
      return {.first = static_cast<double>(peak.value()), .second = seconds};
    case Objective::kCost:
      return {.first = gpus * per_token};
    case Objective::kMicroBatch:
      return {.first = -static_cast<double>(value_of(plan, Axis::kMicroBatch)), .second = seconds};
    case Objective::kSequence:
      return {.first = -static_cast<double>(plan.workload.sequence), .second = seconds};
  }
  return {};
}

double value_of(Objective objective, double first, std::int64_t sequence) {
  switch (objective) {
    case Objective::kThroughput:
    case Objective::kCost:
      return first * static_cast<double>(sequence);
    case Objective::kGpus:
    case Objective::kMemory:
      return first;
    case Objective::kMicroBatch:
    case Objective::kSequence:
      return -first;
  }
  return first;
}

namespace {

/// A late plan may be in time when it is replayed. Its worth is then no less than this.
Worth scaled_late(const SearchQuestion& question, Worth worth, double factor) {
  worth.first *= factor;
  if (worth.first > question.longest.value()) {
    return worth;
  }
  worth.late = false;
  worth.second = 0;
  // A cost is at least the time on one GPU; numbers of other objectives say nothing about the time.
  const bool time =
      question.objective == Objective::kThroughput || question.objective == Objective::kCost;
  worth.first = time ? worth.first : -std::numeric_limits<double>::infinity();
  return worth;
}

}  // namespace

Worth scaled_worth(const SearchQuestion& question, Worth worth, double factor) {
  if (worth.late) {
    return scaled_late(question, worth, factor);
  }
  const bool first =
      question.objective == Objective::kThroughput || question.objective == Objective::kCost;
  (first ? worth.first : worth.second) *= factor;
  return worth;
}

BoundedCell bound_cell(const SearchState& state, Cell cell) {
  const SearchQuestion& question = state.question;
  BoundedCell bounded{.cell = std::move(cell), .first_number = 0, .bound = {}, .seconds = 0};
  Evaluator& evaluator = state.of(bounded.cell);
  bounded.seconds = evaluator.least_of_cell(bounded.cell).value();
  const Bytes floor = question.objective == Objective::kMemory
                          ? evaluator.cell_floor(bounded.cell, kMostBytes)
                          : Bytes{0};
  bounded.bound = worth_of(question, bounded.cell.plan, bounded.seconds, floor);
  return bounded;
}

bool keep_too_large(const RatedPlan& plan, CellAnswer& answer) {
  if (plan.peak > plan.capacity) {
    if (!answer.leanest || plan.peak < answer.leanest->peak) {
      answer.leanest = plan;
    }
    return true;
  }
  if (!plan.host_fits) {
    if (!answer.least_host || plan.host < answer.least_host->host) {
      answer.least_host = plan;
    }
    return true;
  }
  return false;
}

bool is_refusal(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument;
}

Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan) {
  const Bytes total = question.budget > Bytes{0} ? question.budget : question.device.total;
  const std::vector<cost::OutsideTerm> outside =
      cost::outside_terms(question.space.model, plan, question.device);
  return question.room ? question.room(plan, total, outside)
                       : std::max(total - cost::total_of(outside), Bytes{0});
}

double load_of(const SearchQuestion& question, const ir::ParallelPlan& plan) {
  return cost::busy_load_of(question.space.model, plan, question.imbalance);
}

Result<cost::StepEstimate> judged_replay(const SearchQuestion& question,
                                         const ir::ParallelPlan& plan, Bytes budget,
                                         const cost::Machine* machine) {
  Result<cost::StepEstimate> replayed = cost::estimate_with_load(
      question.space.model, plan, load_of(question, plan), question.device, budget, machine);
  if (replayed && question.judge) {
    question.judge(plan, replayed.value());
  }
  return replayed;
}

bool is_accepted(const SearchQuestion& question, const cost::StepEstimate& replayed) {
  const std::optional<double>& chance = question.at_once ? replayed.at_once : replayed.chance;
  return replayed.verdict != cost::Verdict::kDoesNotFit &&
         (!chance || *chance >= question.confidence);
}

bool has_to_stop(const SearchState& state) {
  constexpr std::size_t kMostRefused = 32;  // A choice: each was replayed.
  return state.question.stop.asked() ||
         (state.question.at_once && state.refused.size() >= kMostRefused);
}

bool stops_at_first(const SearchQuestion& question) {
  return question.objective != Objective::kMemory;
}

}  // namespace headroom::plan
