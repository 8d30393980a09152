#include "planner/search/cell_search.h"

#include <algorithm>

#include "costmodel/memory_floor.h"
#include "costmodel/outside_memory.h"

namespace headroom::plan {
namespace {

/// A plan of a cell and its time.
struct Timed {
  double seconds = 0;
  std::uint64_t index = 0;
  friend auto operator<=>(const Timed&, const Timed&) = default;
};

/// Times of all plans of a cell.
class CellTimes {
 public:
  CellTimes(const SearchQuestion& question, const BoundedCell& cell, const Choices& choices)
      : choices_(choices),
        exchange_(question.space.model, cell.cell.plan, cell.blocks, question.machine) {
    constexpr int kLosses = 3;
    for (const ir::ParallelPlan& plan : choices.recomputations) {
      for (int loss = 0; loss < (plan.megatron ? kLosses : 1); ++loss) {
        ir::ParallelPlan one = plan;
        if (one.megatron) {
          one.megatron->cross_entropy = static_cast<ir::MegatronCrossEntropy>(loss);
        }
        pipelines_.push_back(pipeline_parts(question.space.model, one, cell.blocks));
      }
    }
    losses_ = choices.recomputations.front().megatron ? kLosses : 1;
    plan_ = choices.recomputations.front();
  }

  /// Not const: the switches are put into one plan, which is not copied for each.
  [[nodiscard]] StepParts parts(std::uint64_t index) {
    const std::uint64_t recomputation = index / choices_.switches.size();
    const ir::MegatronPlan& with = choices_.switches[index % choices_.switches.size()];
    std::size_t loss = 0;
    if (plan_.megatron) {
      ir::MegatronPlan& megatron = *plan_.megatron;
      megatron.distributed_optimizer = with.distributed_optimizer;
      megatron.overlap_grad_reduce = with.overlap_grad_reduce;
      megatron.overlap_param_gather = with.overlap_param_gather;
      megatron.accumulation_fusion = with.accumulation_fusion;
      loss = static_cast<std::size_t>(with.cross_entropy);
    }
    return exchange_.parts(plan_, pipelines_[recomputation * losses_ + loss]);
  }

 private:
  const Choices& choices_;
  ExchangeTimes exchange_;
  std::vector<PipelineParts> pipelines_;
  std::size_t losses_ = 1;
  ir::ParallelPlan plan_;
};

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

bool by_time_alone(Objective objective) {
  return objective != Objective::kMemory;
}

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

BoundedCell bound_cell(const SearchQuestion& question, Cell cell) {
  BoundedCell bounded{.cell = std::move(cell), .first_number = 0, .bound = {}, .blocks = {}};
  const ir::ParallelPlan& plan = bounded.cell.plan;
  bounded.blocks = block_times(question.space.model, plan, question.machine);
  const double seconds = least_step(question.space.model, plan, bounded.blocks).value();
  ir::ParallelPlan sharded = plan;
  if (sharded.megatron) {
    sharded.megatron->distributed_optimizer = true;
  }
  const Bytes floor = question.objective == Objective::kMemory
                          ? cost::memory_floor(question.space.model, sharded)
                          : Bytes{0};
  bounded.bound = worth_of(question.objective, plan, seconds, floor);
  return bounded;
}

Bytes capacity_of(const SearchQuestion& question, const ir::ParallelPlan& plan) {
  const Bytes total = question.budget > Bytes{0} ? question.budget : question.device.total;
  const Bytes outside =
      cost::total_of(cost::outside_terms(question.space.model, plan, question.device));
  return std::max(total - outside, Bytes{0});
}

Result<CellAnswer> search_cell(const SearchState& state, const BoundedCell& cell,
                               const std::optional<Worth>& incumbent) {
  const SearchQuestion& question = state.question;
  CellAnswer answer;
  const Bytes capacity = capacity_of(question, cell.cell.plan);
  const Choices choices = choices_of(question.space, cell.cell);
  if (question.pruning.memory_floor) {
    ir::ParallelPlan sharded = cell.cell.plan;
    if (sharded.megatron) {
      sharded.megatron->distributed_optimizer = true;
    }
    if (cost::memory_floor(question.space.model, sharded) > capacity) {
      return answer;
    }
  }
  CellTimes times(question, cell, choices);
  std::vector<Timed> order;
  const bool megatron = cell.cell.plan.megatron.has_value();
  for (std::uint64_t index = 0; index < cell.cell.choices; ++index) {
    if (question.pruning.dominance && megatron &&
        is_dominated(question.space.constraints,
                     choices.switches[index % choices.switches.size()])) {
      continue;
    }
    const double seconds = times.parts(index).total().value();
    Worth worth = worth_of(question.objective, cell.cell.plan, seconds, Bytes{0});
    worth.number = cell.first_number + index;
    const bool hopeless =
        incumbent && question.pruning.time_bound && !question.front && worth > *incumbent;
    if (!hopeless && !state.refused.contains(worth.number)) {
      order.push_back({.seconds = seconds, .index = index});
    }
  }
  std::ranges::sort(order);
  CellMemory memory(state.memory, choices);
  CellFloors floors(state.memory, choices);
  for (const Timed& timed : order) {
    if (question.pruning.memory_floor &&
        (floors.of(timed.index) > capacity || memory.static_peak(timed.index) > capacity)) {
      continue;
    }
    if (question.pruning.memory_floor && question.objective == Objective::kMemory && incumbent &&
        !question.front && static_cast<double>(floors.of(timed.index).value()) > incumbent->first) {
      continue;
    }
    const Result<Bytes> peak = memory.peak(timed.index);
    if (!peak) {
      return peak.error();
    }
    ++answer.evaluated;
    const auto rated = [&] {
      return RatedPlan{.plan = plan_at(choices, timed.index),
                       .time = times.parts(timed.index),
                       .peak = *peak,
                       .capacity = capacity,
                       .number = cell.first_number + timed.index};
    };
    if (*peak > capacity) {
      if (!answer.leanest || *peak < answer.leanest->peak) {
        answer.leanest = rated();
      }
      continue;
    }
    Worth worth = worth_of(question.objective, cell.cell.plan, timed.seconds, *peak);
    worth.number = cell.first_number + timed.index;
    if (!answer.best || worth < answer.worth) {
      answer.best = rated();
      answer.worth = worth;
    }
    if (question.front && (answer.front.empty() || *peak < answer.front.back().peak)) {
      answer.front.push_back(rated());  // Plans come by time: later ones must take less memory.
    }
    if (by_time_alone(question.objective) && !question.front) {
      break;
    }
  }
  return answer;
}

}  // namespace headroom::plan
