#include "planner/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <thread>
#include <tuple>
#include <utility>

#include "planner/search/cell_search.h"

namespace headroom::plan {
namespace {

/// Cells that are looked into between two settlements of what the best is. Fixed, so that counts
/// do not depend on threads.
constexpr std::size_t kWave = 16;

constexpr std::array<ir::Word<Objective>, 6> kObjectives = {
    {{"throughput", Objective::kThroughput},
     {"gpus", Objective::kGpus},
     {"memory", Objective::kMemory},
     {"cost", Objective::kCost},
     {"micro-batch", Objective::kMicroBatch},
     {"sequence", Objective::kSequence}}};

/// Runs `work(i)` for i in [0, count) on `threads` threads.
template <typename Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      work(i);
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads && static_cast<std::size_t>(i) < count; ++i) {
    others.emplace_back(run);
  }
  run();
}

std::vector<BoundedCell> bounded_cells(const SearchQuestion& question, std::vector<Cell> cells) {
  std::vector<BoundedCell> bounded(cells.size());
  in_parallel(cells.size(), question.threads,
              [&](std::size_t i) { bounded[i] = bound_cell(question, std::move(cells[i])); });
  std::uint64_t number = 0;
  for (BoundedCell& cell : bounded) {
    cell.first_number = number;
    cell.bound.number = number;
    number += cell.cell.choices;
  }
  std::ranges::sort(bounded, {}, &BoundedCell::bound);
  return bounded;
}

/// One pass over all cells.
class Pass {
 public:
  Pass(const SearchState& state, const std::vector<BoundedCell>& cells)
      : state_(state), cells_(cells) {}

  Result<PlanResult> operator()() {
    const SearchQuestion& question = state_.question;
    const std::size_t limit =
        question.work_limit > 0
            ? std::min<std::size_t>(cells_.size(), static_cast<std::size_t>(question.work_limit))
            : cells_.size();
    std::size_t begin = 0;
    for (; begin < limit && !hopeless(begin); begin += kWave) {
      if (question.stop != nullptr && question.stop->load()) {
        break;
      }
      if (Status status = wave(begin, std::min(begin + kWave, limit)); !status) {
        return std::move(status).error();
      }
      tell(begin);
    }
    finish(begin < cells_.size() && !hopeless(begin) ? begin : cells_.size());
    return std::move(result_);
  }

 private:
  /// No cell from `index` on is worth less than the best.
  [[nodiscard]] bool hopeless(std::size_t index) const {
    return index < cells_.size() && state_.question.pruning.time_bound && !state_.question.front &&
           result_.best && cells_[index].bound > worth_;
  }

  Status wave(std::size_t begin, std::size_t end) {
    std::vector<std::optional<Result<CellAnswer>>> answers(end - begin);
    const std::optional<Worth> incumbent = result_.best ? std::optional(worth_) : std::nullopt;
    in_parallel(end - begin, state_.question.threads, [&](std::size_t i) {
      answers[i] = hopeless(begin + i) ? Result<CellAnswer>(CellAnswer{})
                                       : search_cell(state_, cells_[begin + i], incumbent);
    });
    for (std::optional<Result<CellAnswer>>& answer : answers) {
      if (!*answer) {
        return answer->error();
      }
      settle(std::move(**answer));
    }
    return ok();
  }

  void settle(CellAnswer answer) {
    result_.evaluated += answer.evaluated;
    if (answer.best && (!result_.best || answer.worth < worth_)) {
      worth_ = answer.worth;
      result_.best = std::move(answer.best);
    }
    std::ranges::move(answer.front, std::back_inserter(result_.front));
    const auto& leanest = answer.leanest;
    if (leanest && (!result_.leanest || leanest->peak < result_.leanest->peak)) {
      result_.leanest = leanest;
    }
  }

  void tell(std::size_t begin) const {
    const SearchQuestion& question = state_.question;
    if (question.progress) {
      question.progress({.evaluated = result_.evaluated,
                         .cells = cells_.size(),
                         .cells_done = std::min(begin + kWave, cells_.size()),
                         .best_seconds = result_.best ? result_.best->time.total().value() : 0,
                         .bound_seconds = cells_[begin].bound.first});
    }
  }

  /// `rest`: the first cell that was not looked into; their number if all were, or need not be.
  void finish(std::size_t rest) {
    const bool whole = rest == cells_.size();
    if (result_.best) {
      result_.status = whole ? PlanStatus::kOptimal : PlanStatus::kFeasible;
      const double best = worth_.first;
      const double bound = whole ? best : std::min(best, cells_[rest].bound.first);
      result_.gap = best != 0 ? (best - bound) / std::abs(best) : 0;
      result_.bound_seconds = whole ? result_.best->time.total().value() : cells_[rest].bound.first;
      result_.leanest.reset();
    } else {
      result_.status = whole ? PlanStatus::kInfeasible : PlanStatus::kUnknown;
    }
  }

  const SearchState& state_;
  const std::vector<BoundedCell>& cells_;
  PlanResult result_;
  Worth worth_;
};

/// Drops what another plan beats or equals in time, peak and GPUs (and so in GPU seconds); of
/// equals the first of the space stays.
void keep_front(std::vector<RatedPlan>& plans) {
  std::ranges::sort(plans, [](const RatedPlan& a, const RatedPlan& b) {
    return std::tuple(a.time.total(), a.peak, a.plan.world, a.number) <
           std::tuple(b.time.total(), b.peak, b.plan.world, b.number);
  });
  std::vector<RatedPlan> front;
  for (RatedPlan& plan : plans) {
    const bool beaten = std::ranges::any_of(front, [&](const RatedPlan& other) {
      return other.peak <= plan.peak && other.plan.world <= plan.plan.world;
    });
    if (!beaten) {
      front.push_back(std::move(plan));
    }
  }
  plans = std::move(front);
}

Error empty_space(const SpaceQuestion& question) {
  const std::optional<Conflict> conflict = conflict_of(question);
  if (!conflict) {
    return Error::invalid_argument("plan", "no plan", "a space that is not empty",
                                   "free some of the options");
  }
  const auto text = [&](Axis axis) {
    std::string values;
    for (const std::int64_t value : question.constraints.of(axis)) {
      values += (values.empty() ? "" : ",") + value_text(axis, value);
    }
    return "--" + std::string(option_of(axis)) + " " + values;
  };
  const std::string first(option_of(conflict->axes.front()));
  if (conflict->axes.size() == 1) {
    return Error::invalid_argument(first, text(conflict->axes[0]),
                                   "a value that some plan for this model and these GPUs can have");
  }
  return Error::invalid_argument(
      first, text(conflict->axes[0]) + " with " + text(conflict->axes[1]),
      "values that some plan for this model and these GPUs can have together",
      "free one of the two");
}

}  // namespace

std::span<const ir::Word<Objective>> objective_words() {
  return kObjectives;
}

std::string_view name_of(PlanStatus status) {
  switch (status) {
    case PlanStatus::kOptimal:
      return "optimal";
    case PlanStatus::kFeasible:
      return "feasible";
    case PlanStatus::kInfeasible:
      return "infeasible";
    case PlanStatus::kUnknown:
      return "unknown";
  }
  return "?";
}

Result<PlanResult> search(const SearchQuestion& question) {
  PlanMemory memory(question.space.model, question.device);
  return search(question, memory);
}

Result<PlanResult> search(const SearchQuestion& question, PlanMemory& memory) {
  std::vector<Cell> cells = cells_of(question.space);
  const std::uint64_t space = count_plans(cells);
  if (cells.empty()) {
    return empty_space(question.space);
  }
  const std::vector<BoundedCell> bounded = bounded_cells(question, std::move(cells));
  SearchState state{.question = question, .memory = memory, .refused = {}};
  std::uint64_t evaluated = 0;
  while (true) {
    Result<PlanResult> result = Pass(state, bounded)();
    if (!result) {
      return result;
    }
    evaluated += result->evaluated;
    if (result->best) {
      Result<cost::StepEstimate> replayed =
          cost::estimate(question.space.model, result->best->plan, question.device, question.budget,
                         &question.machine);
      if (!replayed) {
        return std::move(replayed).error();
      }
      if (replayed->verdict == cost::Verdict::kDoesNotFit) {
        state.refused.insert(result->best->number);
        continue;
      }
      result->estimate = std::move(replayed).value();
    }
    keep_front(result->front);
    result->space = space;
    result->evaluated = evaluated;
    result->rejected = state.refused.size();
    result->memory = memory.counts();
    return result;
  }
}

}  // namespace headroom::plan
