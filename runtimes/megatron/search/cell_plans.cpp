#include "runtimes/megatron/search/cell_plans.h"

#include <algorithm>

#include "costmodel/expert_load.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/axes.h"

namespace headroom::plan {
namespace {

/// Whether another allowed setting of the switches is no slower and no larger, whatever the rest of
/// the plan is. The data loader's mask is one more tensor that takes no time. Transformer Engine's
/// cross entropy writes its gradient over the logits; where the host is the limit, it may be
/// slower.
bool is_dominated(const Constraints& allowed, const ir::MegatronPlan& with,
                  const BlockTimes& blocks) {
  constexpr auto kFused = static_cast<std::int64_t>(ir::MegatronCrossEntropy::kTransformerEngine);
  const bool mask = with.mask_in_dataloader && allowed.allows(megatron_axes::kLoaderMask, 0);
  const bool loss = with.cross_entropy != ir::MegatronCrossEntropy::kTransformerEngine &&
                    allowed.allows(Axis::kLoss, kFused) &&
                    blocks.head.at(static_cast<std::size_t>(kFused)) <=
                        blocks.head.at(static_cast<std::size_t>(with.cross_entropy));
  return mask || loss;
}

std::optional<MegatronChoices> loaded_choices(const SearchQuestion& question,
                                              const ir::ParallelPlan& plan) {
  const double load = load_of(question, plan);
  return load != 1 ? std::optional(megatron_choices(question.space, cost::with_load(plan, load)))
                   : std::nullopt;
}

}  // namespace

CellPlans::CellPlans(const SearchState& state, PlanMemory& memory, const BoundedCell& cell,
                     const BlockTimes& blocks)
    : state_(state),
      plan_memory_(memory),
      cell_(cell),
      blocks_(blocks),
      capacity_(capacity_of(state.question, cell.cell.plan)),
      choices_(megatron_choices(state.question.space, cell.cell.plan)),
      loaded_(loaded_choices(state.question, cell.cell.plan)),
      times_(state.question.space.model, cell.cell.plan, blocks, state.question.machine, choices_),
      memory_(memory, held()),
      floors_(4 * choices_.recomputations.size()) {}

std::vector<Timed> CellPlans::listed() {
  std::vector<Timed> all;
  for (std::uint64_t index = 0; index < cell_.cell.choices; ++index) {
    const bool dominated =
        state_.question.pruning.dominance &&
        is_dominated(state_.question.space.constraints,
                     choices_.switches[index % choices_.switches.size()], blocks_);
    if (!dominated && !state_.refused.contains(cell_.first_number + index)) {
      all.push_back(timed(index));
    }
  }
  return all;
}

Bytes CellPlans::floor_of(std::uint64_t index) {
  const std::uint64_t count = choices_.switches.size();
  const ir::MegatronPlan& with = choices_.switches[index % count];
  const std::size_t slot =
      (with.distributed_optimizer ? 1U : 0U) + (with.optimizer_offload > 0 ? 2U : 0U);
  std::optional<Bytes>& floor = floors_[4 * (index / count) + slot];
  if (!floor) {
    floor = plan_memory_.floor(held().plan_at(index));
  }
  return *floor;
}

bool CellPlans::may_use_host(std::uint64_t index) const {
  return choices_.switches[index % choices_.switches.size()].optimizer_offload > 0;
}

const cost::HostMemory* CellPlans::host(std::uint64_t index) {
  const std::optional<cost::HostSpec>& node = state_.question.device.host;
  return node && may_use_host(index) ? &memory_.host(index, node) : nullptr;
}

RatedPlan CellPlans::rated(const Timed& timed, Bytes peak) {
  RatedPlan rated{.plan = choices_.plan_at(timed.index),
                  .time = times_.parts(timed.index),
                  .peak = peak,
                  .capacity = capacity_,
                  .number = cell_.first_number + timed.index};
  if (const cost::HostMemory* const taken = host(timed.index)) {
    rated.host = taken->bytes;
    rated.host_capacity = taken->capacity.value_or(Bytes{0});
    rated.host_fits = taken->fits();
  }
  return rated;
}

}  // namespace headroom::plan
