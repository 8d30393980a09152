#include "planner/search/cell_plans.h"

#include <algorithm>

#include "costmodel/memory_floor.h"

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

}  // namespace

CellPlans::CellPlans(const SearchState& state, const BoundedCell& cell, const BlockTimes& blocks)
    : state_(state),
      cell_(cell),
      capacity_(capacity_of(state.question, cell.cell.plan)),
      choices_(choices_of(state.question.space, cell.cell)),
      times_(state.question.space.model, cell.cell.plan, blocks, state.question.machine, choices_),
      memory_(state.memory, choices_),
      floors_(4 * choices_.recomputations.size()) {}

std::vector<Timed> CellPlans::listed() {
  std::vector<Timed> all;
  for (std::uint64_t index = 0; index < cell_.cell.choices; ++index) {
    const bool dominated = state_.question.pruning.dominance &&
                           is_dominated(state_.question.space.constraints,
                                        choices_.switches[index % choices_.switches.size()]);
    if (!dominated && !state_.refused.contains(cell_.first_number + index)) {
      all.push_back(timed(index));
    }
  }
  return all;
}

Bytes CellPlans::cell_floor(const SearchState& state, const BoundedCell& cell, Bytes enough) {
  const ir::ParallelPlan lean = least_states(state.question.space.constraints, cell.cell.plan);
  const Bytes held = cost::memory_floor(state.question.space.model, lean);
  if (held > enough) {
    return held;
  }
  if (lean.megatron) {
    return std::max(held, state.memory.cell_floor(lean));
  }
  Bytes least = kMostBytes;
  for (const ir::ParallelPlan& plan : choices_of(state.question.space, cell.cell).recomputations) {
    least = std::min(least, state.lowered.floor(plan));
  }
  return std::max(held, least);
}

Bytes CellPlans::floor_of(std::uint64_t index) {
  const std::uint64_t count = choices_.switches.size();
  const ir::MegatronPlan& with = choices_.switches[index % count];
  const std::size_t slot =
      (with.distributed_optimizer ? 1U : 0U) + (with.optimizer_offload > 0 ? 2U : 0U);
  std::optional<Bytes>& floor = floors_[4 * (index / count) + slot];
  if (!floor) {
    floor = state_.memory.floor(plan_at(choices_, index));
  }
  return *floor;
}

RatedPlan CellPlans::rated(const Timed& timed, Bytes peak) {
  return {.plan = plan_at(choices_, timed.index),
          .time = times_.parts(timed.index),
          .peak = peak,
          .capacity = capacity_,
          .number = cell_.first_number + timed.index};
}

}  // namespace headroom::plan
