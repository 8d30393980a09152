#include "planner/search/cell_search.h"

#include <algorithm>

#include "costmodel/memory_floor.h"
#include "costmodel/outside_memory.h"
#include "planner/evaluate/cell_memory.h"
#include "planner/search/cell_times.h"

namespace headroom::plan {
namespace {

/// Switches that another allowed setting beats: no slower and no larger, whatever the rest of the
/// plan is. The mask of the data loader is one more tensor that takes no time; Transformer Engine's
/// cross entropy writes its gradient over the logits.
bool is_dominated(const Constraints& allowed, const ir::MegatronPlan& with) {
  constexpr auto kFused = static_cast<std::int64_t>(ir::MegatronCrossEntropy::kTransformerEngine);
  const bool mask = with.mask_in_dataloader && allowed.allows(Axis::kLoaderMask, 0);
  const bool loss = with.cross_entropy != ir::MegatronCrossEntropy::kTransformerEngine &&
                    allowed.allows(Axis::kLoss, kFused);
  return mask || loss;
}

/// `PlanMemory::floor` of a cell's plans: they differ by recomputation and by whether optimizer
/// states are spread.
class CellFloors {
 public:
  CellFloors(PlanMemory& memory, const Choices& choices)
      : memory_(memory), choices_(choices), floors_(2 * choices.recomputations.size()) {}

  [[nodiscard]] Bytes of(std::uint64_t index) {
    const std::uint64_t count = choices_.switches.size();
    const bool spread = choices_.switches[index % count].distributed_optimizer;
    std::optional<Bytes>& floor = floors_[2 * (index / count) + (spread ? 1 : 0)];
    if (!floor) {
      floor = memory_.floor(plan_at(choices_, index));
    }
    return *floor;
  }

 private:
  PlanMemory& memory_;
  const Choices& choices_;
  std::vector<std::optional<Bytes>> floors_;
};

}  // namespace

Worth worth_of(Objective objective, const ir::ParallelPlan& plan, double seconds, Bytes peak) {
  const auto gpus = static_cast<double>(plan.world);
  switch (objective) {
    case Objective::kThroughput:
      return {.first = seconds};
    case Objective::kGpus:
      return {.first = gpus, .second = seconds};
    case Objective::kMemory:
      return {.first = static_cast<double>(peak.value()), .second = seconds};
    case Objective::kCost:
      return {.first = gpus * seconds};
    case Objective::kMicroBatch:
      return {.first = -static_cast<double>(plan.micro_batch), .second = seconds};
    case Objective::kSequence:
      return {.first = -static_cast<double>(plan.sequence), .second = seconds};
  }
  return {};
}

BoundedCell bound_cell(const SearchQuestion& question, Cell cell,
                       std::shared_ptr<const BlockTimes> blocks) {
  BoundedCell bounded{.cell = std::move(cell),
                      .first_number = 0,
                      .bound = {},
                      .seconds = 0,
                      .blocks = std::move(blocks)};
  const ir::ParallelPlan& plan = bounded.cell.plan;
  bounded.seconds = least_step(question.space.model, plan, *bounded.blocks).value();
  ir::ParallelPlan sharded = plan;
  if (sharded.megatron) {
    sharded.megatron->distributed_optimizer = true;
  }
  const Bytes floor = question.objective == Objective::kMemory
                          ? cost::memory_floor(question.space.model, sharded)
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
  return question.objective != Objective::kMemory && !question.front;
}

namespace {

/// One visit of a cell.
class CellVisit {
 public:
  CellVisit(const SearchState& state, const BoundedCell& cell, const Visit& visit)
      : state_(state),
        question_(state.question),
        cell_(cell),
        visit_(visit),
        capacity_(capacity_of(question_, cell.cell.plan)),
        choices_(choices_of(question_.space, cell.cell)),
        times_(question_.space.model, cell.cell.plan, *cell.blocks, question_.machine, choices_),
        memory_(state.memory, choices_),
        floors_(state.memory, choices_) {}

  Result<CellAnswer> operator()() {
    if (question_.pruning.memory_floor && !visit_.after && is_too_large()) {
      return std::move(answer_);
    }
    for (const Timed& timed : plans_by_time()) {
      if (visit_.limit && worth_of_time(timed) > *visit_.limit) {
        answer_.next =
            Next{.seconds = timed.seconds, .bound = worth_of_time(timed), .after = last_};
        break;
      }
      last_ = timed;
      if (question_.pruning.memory_floor && is_ruled_out(timed)) {
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
    const std::uint64_t count = choices_.switches.size();
    std::uint64_t index = 0;
    for (std::uint64_t i = 0; i < choices_.recomputations.size(); ++i) {
      const ir::ParallelPlan& plan = choices_.recomputations[i];
      const bool whole = plan.megatron
                             ? plan.megatron->recompute == ir::MegatronRecompute::kFullUniform &&
                                   plan.megatron->recompute_layers == 1
                             : plan.recompute == ir::Recompute::kFull;
      index = whole ? i * count : index;
    }
    const Timed timed{.seconds = times_.parts(index).total().value(), .index = index};
    if (state_.refused.contains(cell_.first_number + index) || is_ruled_out(timed)) {
      return std::move(answer_);
    }
    const Status status = evaluate(timed);
    return status ? Result<CellAnswer>(std::move(answer_)) : Result<CellAnswer>(status.error());
  }

 private:
  /// Whether no plan of the cell fits.
  [[nodiscard]] bool is_too_large() {
    ir::ParallelPlan sharded = cell_.cell.plan;
    if (sharded.megatron) {
      sharded.megatron->distributed_optimizer = true;
    }
    return cost::memory_floor(question_.space.model, sharded) > ceiling() ||
           state_.memory.cell_floor(sharded) > ceiling();
  }

  [[nodiscard]] Worth worth_of_time(const Timed& timed) const {
    Worth worth = worth_of(question_.objective, cell_.cell.plan, timed.seconds, Bytes{0});
    worth.number = cell_.first_number + timed.index;
    return worth;
  }

  /// Those that may be the best, from the first that was not looked at.
  [[nodiscard]] std::vector<Timed> plans_by_time() {
    last_ = visit_.after;
    std::vector<Timed> order;
    for (std::uint64_t index = 0; index < cell_.cell.choices; ++index) {
      if (question_.pruning.dominance && cell_.cell.plan.megatron &&
          is_dominated(question_.space.constraints,
                       choices_.switches[index % choices_.switches.size()])) {
        continue;
      }
      const Timed timed{.seconds = times_.parts(index).total().value(), .index = index};
      const bool hopeless = visit_.incumbent && question_.pruning.time_bound && !question_.front &&
                            worth_of_time(timed) > *visit_.incumbent;
      if (!hopeless && (!visit_.after || *visit_.after < timed) &&
          !state_.refused.contains(cell_.first_number + index)) {
        order.push_back(timed);
      }
    }
    std::ranges::sort(order);
    return order;
  }

  [[nodiscard]] bool is_ruled_out(const Timed& timed) {
    return floors_.of(timed.index) > ceiling() || memory_.static_peak(timed.index) > ceiling();
  }

  /// A plan with a higher peak is of no use: it does not fit, or the lowest peak is sought and a
  /// lower one is known.
  [[nodiscard]] Bytes ceiling() const {
    Bytes lowest = capacity_;
    if (question_.objective == Objective::kMemory && !question_.front) {
      for (const std::optional<Worth>& known :
           {visit_.incumbent, answer_.best ? std::optional(answer_.worth) : std::nullopt}) {
        if (known) {
          lowest = std::min(lowest, Bytes{static_cast<std::int64_t>(known->first)});
        }
      }
    }
    return lowest;
  }

  [[nodiscard]] RatedPlan rated(const Timed& timed, Bytes peak) {
    return {.plan = plan_at(choices_, timed.index),
            .time = times_.parts(timed.index),
            .peak = peak,
            .capacity = capacity_,
            .number = cell_.first_number + timed.index};
  }

  [[nodiscard]] Status evaluate(const Timed& timed) {
    const Bytes highest = ceiling();
    const Result<Bytes> peak = memory_.peak(timed.index, highest);
    if (!peak) {
      return peak.error();
    }
    ++answer_.evaluated;
    if (*peak > capacity_) {
      if (!answer_.leanest || *peak < answer_.leanest->peak) {
        answer_.leanest = rated(timed, *peak);
      }
      return ok();
    }
    if (*peak > highest) {
      return ok();  // That of one rank, and already no lower than the best.
    }
    Worth worth = worth_of(question_.objective, cell_.cell.plan, timed.seconds, *peak);
    worth.number = cell_.first_number + timed.index;
    if (!answer_.best || worth < answer_.worth) {
      answer_.best = rated(timed, *peak);
      answer_.worth = worth;
    }
    if (question_.front && (answer_.front.empty() || *peak < answer_.front.back().peak)) {
      answer_.front.push_back(rated(timed, *peak));  // By time: later ones must take less memory.
    }
    return ok();
  }

  const SearchState& state_;
  const SearchQuestion& question_;
  const BoundedCell& cell_;
  const Visit& visit_;
  Bytes capacity_;
  Choices choices_;
  CellTimes times_;
  CellMemory memory_;
  CellFloors floors_;
  std::optional<Timed> last_;
  CellAnswer answer_;
};

}  // namespace

Result<CellAnswer> search_cell(const SearchState& state, const BoundedCell& cell,
                               const Visit& visit) {
  return CellVisit(state, cell, visit)();
}

Result<CellAnswer> leanest_of_cell(const SearchState& state, const BoundedCell& cell) {
  const Visit visit;
  return CellVisit(state, cell, visit).leanest();
}

}  // namespace headroom::plan
