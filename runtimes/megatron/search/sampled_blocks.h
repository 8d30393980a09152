#pragma once

#include <mutex>
#include <unordered_map>

#include "runtimes/megatron/search/block_times.h"
#include "runtimes/megatron/search/plan_key.h"

namespace headroom::plan {

/// `block_times` of Megatron plans, each sampled once. All members may be called from several
/// threads.
class SampledBlocks {
 public:
  /// Keeps references to all three arguments.
  SampledBlocks(const ir::ModelSpec& model, const cost::DeviceSpec& device,
                const cost::Machine& machine)
      : model_(model), device_(device), machine_(machine) {}

  /// Errors:  those of `block_times`.
  [[nodiscard]] Result<BlockTimes> of(const ir::ParallelPlan& plan);

 private:
  const ir::ModelSpec& model_;
  const cost::DeviceSpec& device_;
  const cost::Machine& machine_;
  std::mutex mutex_;
  std::unordered_map<PlanKey, BlockTimes, PlanKeyHash> known_;
};

}  // namespace headroom::plan
