#include "planner/search/cell_search.h"

#include <algorithm>

#include "costmodel/memory_floor.h"
#include "costmodel/outside_memory.h"
#include "planner/evaluate/block_floor.h"
#include "planner/search/cell_plans.h"
#include "planner/space/axis_value.h"

namespace headroom::plan {

Worth worth_of(Objective objective, const ir::ParallelPlan& plan, double seconds, Bytes peak) {
  const auto gpus = static_cast<double>(plan.world);
  switch (objective) {
    case Objective::kThroughput:
      return {.first = seconds / static_cast<double>(plan.sequence)};
    case Objective::kGpus:
      return {.first = gpus, .second = seconds};
    case Objective::kMemory:
      return {.first = static_cast<double>(peak.value()), .second = seconds};
    case Objective::kCost:
      return {.first = gpus * seconds / static_cast<double>(plan.sequence)};
    case Objective::kMicroBatch:
      return {.first = -static_cast<double>(sequences_of_pass(plan)), .second = seconds};
    case Objective::kSequence:
      return {.first = -static_cast<double>(plan.sequence), .second = seconds};
  }
  return {};
}

ir::ParallelPlan least_states(const Constraints& allowed, const ir::ParallelPlan& plan) {
  ir::ParallelPlan lean = plan;
  if (lean.megatron) {
    const AxisValues& offload = allowed.of(Axis::kOptimizerOffload);
    const bool hybrid = !offload.empty() && offload.back() > 0 && !lean.megatron->fp8_parameters;
    lean.megatron->distributed_optimizer = true;
    lean.megatron->precision_aware = hybrid;
    lean.megatron->optimizer_offload = hybrid ? 1 : 0;
  }
  return lean;
}

BoundedCell bound_cell(const SearchState& state, Cell cell) {
  const SearchQuestion& question = state.question;
  BoundedCell bounded{.cell = std::move(cell), .first_number = 0, .bound = {}, .seconds = 0};
  const ir::ParallelPlan& plan = bounded.cell.plan;
  // The first choice recomputes least: no other takes less.
  const ir::ModelSpec& model = question.space.model;
  const Seconds least = plan.megatron
                            ? least_step(model, plan, block_floor(model, plan, question.machine))
                            : state.lowered.least_of_cell(plan);
  bounded.seconds = least.value();
  const Bytes floor = question.objective == Objective::kMemory
                          ? CellPlans::cell_floor(state, bounded, kMostBytes)
                          : Bytes{0};
  bounded.bound = worth_of(question.objective, plan, bounded.seconds, floor);
  return bounded;
}

Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan) {
  const Bytes total = question.budget > Bytes{0} ? question.budget : question.device.total;
  const Bytes outside =
      cost::total_of(cost::outside_terms(question.space.model, plan, question.device));
  return std::max(total - outside, Bytes{0});
}

bool stops_at_first(const SearchQuestion& question) {
  return question.objective != Objective::kMemory;
}

namespace {

/// A plan with a higher peak is of no use: it does not fit, or the lowest peak is sought and a
/// lower one is known.
Bytes ceiling_of(const SearchState& state, const BoundedCell& cell, const Visit& visit) {
  const Bytes capacity = capacity_of(state.question, cell.cell.plan);
  if (state.question.objective != Objective::kMemory || !visit.incumbent) {
    return capacity;
  }
  return std::min(capacity, Bytes{static_cast<std::int64_t>(visit.incumbent->first)});
}

/// One visit of a cell.
class CellVisit {
 public:
  CellVisit(const SearchState& state, const BoundedCell& cell, const Visit& visit,
            const BlockTimes& blocks)
      : question_(state.question),
        cell_(cell),
        visit_(visit),
        ceiling_(ceiling_of(state, cell, visit)),
        plans_(state, cell, blocks) {}

  Result<CellAnswer> operator()() {
    for (const Timed& timed : plans_in_order()) {
      if (visit_.limit && worth_of_time(timed) > *visit_.limit) {
        answer_.next =
            Next{.seconds = timed.seconds, .bound = worth_of_time(timed), .after = last_};
        break;
      }
      last_ = timed;
      if (question_.pruning.memory_floor && plans_.is_above(timed.index, ceiling())) {
        continue;
      }
      if (Status status = evaluate(timed); !status) {
        return std::move(status).error();
      }
      if (answer_.best && stops_at_first(question_)) {
        break;
      }
    }
    return std::move(answer_);
  }

  /// The plan that keeps least in the steady state, alone.
  Result<CellAnswer> leanest() {
    const Choices& choices = plans_.choices();
    const std::uint64_t count = choices.switches.size();
    std::uint64_t index = 0;
    for (std::uint64_t i = 0; i < choices.recomputations.size(); ++i) {
      const ir::MegatronPlan& megatron = *choices.recomputations[i].megatron;
      const bool whole = megatron.recompute == ir::MegatronRecompute::kFullUniform &&
                         megatron.recompute_layers == 1;
      index = whole ? i * count : index;
    }
    const std::vector<Timed> listed = plans_.listed();
    const auto one = std::ranges::find(listed, index, &Timed::index);
    if (one == listed.end() || plans_.is_above(index, ceiling())) {
      return std::move(answer_);
    }
    const Status status = evaluate(*one);
    return status ? Result<CellAnswer>(std::move(answer_)) : Result<CellAnswer>(status.error());
  }

 private:
  [[nodiscard]] Worth worth_of_time(const Timed& timed) const {
    Worth worth = worth_of(question_.objective, cell_.cell.plan, timed.seconds, Bytes{0});
    worth.number = cell_.first_number + timed.index;
    return worth;
  }

  /// Those that may be the best, from the first that was not looked at: by time, or where the
  /// lowest peak is sought by what they need at least, so that the ceiling falls early.
  [[nodiscard]] std::vector<Timed> plans_in_order() {
    last_ = visit_.after;
    std::vector<Timed> order = plans_.listed();
    std::erase_if(order, [&](const Timed& timed) {
      const bool hopeless = visit_.incumbent && question_.pruning.time_bound &&
                            worth_of_time(timed) > *visit_.incumbent;
      return hopeless || (visit_.after && !(*visit_.after < timed));
    });
    std::ranges::sort(order);
    if (!stops_at_first(question_)) {
      std::ranges::stable_sort(order, {},
                               [this](const Timed& timed) { return plans_.floor(timed.index); });
    }
    return order;
  }

  /// `ceiling_of`, and no higher than the lowest peak that this visit has found, if that is sought.
  [[nodiscard]] Bytes ceiling() const {
    const bool lowest = question_.objective == Objective::kMemory && answer_.best;
    return lowest ? std::min(ceiling_, answer_.best->peak) : ceiling_;
  }

  [[nodiscard]] Status evaluate(const Timed& timed) {
    const Bytes highest = ceiling();
    const Result<Bytes> peak = plans_.peak(timed.index, highest);
    if (!peak) {
      return peak.error();
    }
    ++answer_.evaluated;
    if (*peak > plans_.capacity()) {
      if (!answer_.leanest || *peak < answer_.leanest->peak) {
        answer_.leanest = plans_.rated(timed, *peak);
      }
      return ok();
    }
    if (*peak > highest) {
      return ok();  // That of one rank, and already no lower than the best.
    }
    Worth worth = worth_of(question_.objective, cell_.cell.plan, timed.seconds, *peak);
    worth.number = cell_.first_number + timed.index;
    if (!answer_.best || worth < answer_.worth) {
      answer_.best = plans_.rated(timed, *peak);
      answer_.worth = worth;
    }
    return ok();
  }

  const SearchQuestion& question_;
  const BoundedCell& cell_;
  const Visit& visit_;
  Bytes ceiling_;
  CellPlans plans_;
  std::optional<Timed> last_;
  CellAnswer answer_;
};

/// A cell that has been opened for its bound, and whose plans turn out to take longer than this
/// visit looks.
std::optional<Next> beyond_limit(const SearchState& state, const BoundedCell& cell,
                                 const Visit& visit, const BlockTimes& blocks) {
  if (visit.after || !visit.limit) {
    return std::nullopt;
  }
  const SearchQuestion& question = state.question;
  const ir::ParallelPlan& plan = cell.cell.plan;
  const double seconds = least_step(question.space.model, plan, blocks).value();
  Worth worth = worth_of(question.objective, plan, seconds, Bytes{0});
  worth.number = cell.first_number;
  return worth > *visit.limit ? std::optional(Next{.seconds = seconds, .bound = worth, .after = {}})
                              : std::nullopt;
}

}  // namespace

Result<CellAnswer> search_cell(const SearchState& state, const BoundedCell& cell,
                               const Visit& visit) {
  if (!cell.cell.plan.megatron) {
    return search_lowered_cell(state, cell, visit);
  }
  const Bytes ceiling = ceiling_of(state, cell, visit);
  if (state.question.pruning.memory_floor && !visit.after &&
      CellPlans::cell_floor(state, cell, ceiling) > ceiling) {
    return CellAnswer{};  // Before its pieces are sampled: where nothing fits, all cells are
                          // opened.
  }
  const Result<BlockTimes> blocks = state.blocks.of(cell.cell.plan);
  if (!blocks) {
    return blocks.error();
  }
  if (std::optional<Next> later = beyond_limit(state, cell, visit, *blocks)) {
    CellAnswer answer;
    answer.next = later;
    return answer;
  }
  return CellVisit(state, cell, visit, *blocks)();
}

Result<CellAnswer> leanest_of_cell(const SearchState& state, const BoundedCell& cell) {
  if (!cell.cell.plan.megatron) {
    return leanest_of_lowered_cell(state, cell);
  }
  const Result<BlockTimes> blocks = state.blocks.of(cell.cell.plan);
  if (!blocks) {
    return blocks.error();
  }
  const Visit visit;
  return CellVisit(state, cell, visit, *blocks).leanest();
}

}  // namespace headroom::plan
