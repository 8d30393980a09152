#include "runtimes/megatron/search/sampled_blocks.h"

#include <utility>

namespace headroom::plan {

Result<BlockTimes> SampledBlocks::of(const ir::ParallelPlan& plan) {
  PlanKey key = pieces_key(plan);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) {
      return with_transfers(found->second, model_, plan, machine_);
    }
  }
  Result<BlockTimes> blocks = block_times(model_, plan, machine_, device_);
  if (blocks) {
    const std::lock_guard lock(mutex_);
    known_.try_emplace(std::move(key), *blocks);
  }
  return blocks;
}

}  // namespace headroom::plan
