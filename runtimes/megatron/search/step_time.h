#pragma once

#include "planner/evaluate/plan_figures.h"
#include "runtimes/megatron/search/block_times.h"
#include "runtimes/megatron/search/pipeline_times.h"

namespace headroom::plan {

/// What data-parallel ranks of Megatron exchange and what the optimizer takes, for all switches of
/// a plan but the order of the mesh.
///
/// Model:   communication of gradients and parameters hides behind backward and forward where the
///          plan overlaps it, and takes multiprocessors from them: that of each of v chunks behind
///          its own pass of the last (first) micro-batch and behind the passes of a round of
///          micro-batches through the chunks that come after (before) it. Adam is bound by memory.
///          Of the share that is the host's, fp32 gradients are copied there, the host steps, and
///          fp32 parameters are copied back.
class ExchangeTimes {
 public:
  /// `held`: the parameters of the rank that has most.
  ExchangeTimes(const ir::ParallelPlan& plan, const HeldParameters& held,
                const cost::Machine& machine);

  /// The parts of a step whose pipeline takes `pipeline`. `plan` may differ from the constructor's
  /// in switches only.
  [[nodiscard]] StepParts parts(const ir::ParallelPlan& plan, const PipelineParts& pipeline) const;

 private:
  Seconds all_reduce_;  ///< Of gradients; where they are sharded, to shards.
  Seconds reduce_scatter_;
  Seconds gather_;  ///< Of parameters.
  Seconds adam_;
  Seconds sharded_adam_;
  Seconds accumulation_;  ///< Adding up one micro-batch's weight gradients apart.
  double taken_ = 0;      ///< `cost::taken_ratio`.
  Seconds host_adam_;     ///< Of all of a rank's sharded states, on the host, with their copies.
};

/// Time of one optimizer step of `plan`, for Megatron, whose pieces take `blocks`.
[[nodiscard]] StepParts step_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                   const BlockTimes& blocks, const cost::Machine& machine);

/// A lower bound of `step_parts(...).total()` over all choices that the arguments leave open:
/// nothing is run again, nothing of the data-parallel exchange shows, the optimizer takes nothing.
[[nodiscard]] Seconds least_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                 const BlockTimes& blocks);

}  // namespace headroom::plan
