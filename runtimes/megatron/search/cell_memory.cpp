#include "runtimes/megatron/search/cell_memory.h"

#include <algorithm>

#include "runtimes/megatron/plan.h"

namespace headroom::plan {
namespace {

/// Numbers of static parts and of moving parts that the switches of a plan distinguish.
constexpr std::size_t kFixedSlots = 4 * (kOffloadSteps + 1);
constexpr std::size_t kMovingSlots = 12;

std::size_t fixed_slot(const ir::MegatronPlan& with) {
  const auto offloaded = static_cast<std::size_t>(with.optimizer_offload * kOffloadSteps);
  return 4 * offloaded + (with.distributed_optimizer ? 1U : 0U) +
         (with.overlap_grad_reduce ? 2U : 0U);
}

std::size_t moving_slot(const ir::MegatronPlan& with) {
  return 4 * static_cast<std::size_t>(with.cross_entropy) + (with.accumulation_fusion ? 1U : 0U) +
         (with.mask_in_dataloader ? 2U : 0U);
}

}  // namespace

CellMemory::CellMemory(PlanMemory& memory, const MegatronChoices& choices)
    : memory_(memory), choices_(choices) {
  const ir::ParallelPlan& plan = choices.recomputations.front();
  if (!has_megatron(plan) || megatron_of(plan).micro_batch_group > 0 ||
      megatron_of(plan).mtp_layers > 0) {
    return;
  }
  for (const ir::MegatronPlan& with : choices.switches) {
    fixed_slot_.push_back(fixed_slot(with));
    moving_slot_.push_back(moving_slot(with));
  }
  for (const PlanMemory::RankPlace& place : PlanMemory::places_of(memory.model_, plan)) {
    ranks_.push_back({.place = place,
                      .fixed = std::vector<Fixed>(kFixedSlots),
                      .moving = std::vector<Moving>(choices.recomputations.size() * kMovingSlots),
                      .kept = std::vector<std::optional<Bytes>>(choices.recomputations.size())});
  }
}

ir::ParallelPlan CellMemory::placed(std::uint64_t index) const {
  ir::ParallelPlan plan = choices_.plan_at(index);
  edit_megatron(plan).pipeline_before_data =
      megatron_of(choices_.recomputations.front()).pipeline_before_data;
  return plan;
}

const CellMemory::Moving& CellMemory::moving_of(RankParts& rank, std::uint64_t index) {
  const std::uint64_t count = choices_.switches.size();
  Moving& moving = rank.moving[index / count * kMovingSlots + moving_slot_[index % count]];
  if (moving.known) {
    return moving;
  }
  const PlanMemory::Parts parts = memory_.parts_of(placed(index), rank.place);
  moving.known = true;
  moving.whole = !parts.family;
  for (std::size_t step = 0; parts.family && step < (*parts.family)->steps(); ++step) {
    moving.steps.push_back((*parts.family)->step(step, parts.counts));
  }
  return moving;
}

Result<Bytes> CellMemory::rank_peak(RankParts& rank, std::uint64_t index) {
  const Moving& moving = moving_of(rank, index);
  if (moving.whole) {
    return memory_.whole_peak(placed(index), rank.place.rank);
  }
  const Result<StaticMemory>& fixed = fixed_of(rank, index);
  return fixed ? Result<Bytes>(composed_peak(*fixed, moving.steps)) : Result<Bytes>(fixed.error());
}

const Result<StaticMemory>& CellMemory::fixed_of(RankParts& rank, std::uint64_t index) {
  Fixed& fixed = rank.fixed[fixed_slot_[index % choices_.switches.size()]];
  if (!fixed) {
    fixed = memory_.static_of(placed(index), rank.place);
  }
  return *fixed;
}

Bytes CellMemory::kept_of(RankParts& rank, std::uint64_t index) {
  std::optional<Bytes>& kept = rank.kept[index / choices_.switches.size()];
  if (!kept) {
    kept = memory_.kept_floor(placed(index), rank.place.stage);
  }
  return *kept;
}

Bytes CellMemory::floor(std::uint64_t index) {
  std::int64_t peak = 0;
  for (RankParts& rank : ranks_) {
    const std::int64_t above = kept_of(rank, index).value();
    if (const Result<StaticMemory>& fixed = fixed_of(rank, index)) {
      peak = std::max(peak, fixed->construction_peak);
      for (const StaticMemory::Step& step : fixed->steps) {
        peak = std::max({peak, step.base + above, step.optimizer_peak, step.optimizer_end});
      }
    }
  }
  return Bytes{peak};
}

const cost::HostMemory& CellMemory::host(std::uint64_t index,
                                         const std::optional<cost::HostSpec>& node) {
  const std::size_t slot = fixed_slot(choices_.switches[index % choices_.switches.size()]);
  if (const auto known = hosts_.find(slot); known != hosts_.end()) {
    return known->second;
  }
  const ir::ParallelPlan plan = choices_.plan_at(index);
  cost::HostMemory most = cost::host_floor(memory_.model_, plan, node);
  for (RankParts& rank : ranks_) {
    const Result<StaticMemory>& fixed = fixed_of(rank, index);
    if (!fixed) {
      continue;
    }
    ir::RankProgram program;
    program.host = fixed->host;
    cost::HostMemory one = cost::host_memory(memory_.model_, plan, node, program);
    if (one.bytes > most.bytes) {
      most = std::move(one);
    }
  }
  return hosts_.emplace(slot, std::move(most)).first->second;
}

Result<Bytes> CellMemory::peak(std::uint64_t index, Bytes capacity) {
  if (ranks_.empty()) {
    return memory_.peak(choices_.plan_at(index));
  }
  memory_.plans_.fetch_add(1, std::memory_order_relaxed);
  Bytes peak;
  for (RankParts& rank : ranks_) {
    const Result<Bytes> one = rank_peak(rank, index);
    if (!one) {
      return one.error();
    }
    peak = std::max(peak, *one);
    if (peak > capacity) {
      break;
    }
  }
  return peak;
}

}  // namespace headroom::plan
