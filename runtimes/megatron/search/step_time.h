#pragma once

#include "planner/evaluate/plan_figures.h"
#include "runtimes/megatron/search/block_times.h"
#include "runtimes/megatron/search/pipeline_times.h"

namespace headroom::plan {

/// Times of the data-parallel communication of Megatron's ranks and of the optimizer. They serve
/// all switches of a plan except the order of the mesh.
///
/// Model:   if the plan overlaps it, communication of gradients and parameters is hidden behind
///          backward and forward, and takes multiprocessors from them. With v chunks, the
///          communication of each chunk is hidden behind its own pass of the last (first)
///          micro-batch, and behind the passes of a round of micro-batches through the chunks that
///          come after (before) it. Adam is memory-bound. For the fraction on the host, fp32
///          gradients are copied to the host, the host runs the step, and fp32 parameters are
///          copied back.
class ExchangeTimes {
 public:
  /// `held`: the parameters of the rank that has the most.
  ExchangeTimes(const ir::ParallelPlan& plan, const HeldParameters& held,
                const cost::Machine& machine);

  /// The parts of a step whose pipeline takes `pipeline`. `plan` may differ from the constructor's
  /// only in switches.
  [[nodiscard]] StepParts parts(const ir::ParallelPlan& plan, const PipelineParts& pipeline) const;

 private:
  /// Reduction of gradients: all-reduce, or reduce-scatter if they are sharded.
  Seconds all_reduce_;
  Seconds reduce_scatter_;
  Seconds gather_;  ///< All-gather of parameters.
  Seconds adam_;
  Seconds sharded_adam_;
  /// Separate accumulation of one micro-batch's weight gradients. A replay runs it on a stream of
  /// its own, as if that had memory bandwidth of its own; here it counts in full.
  Seconds accumulation_;
  Seconds zero_;   ///< Filling the gradients with zeros.
  Seconds check_;  ///< Checking and scaling the gradients.
  /// The part that is reduced last: the first layer and the embedding.
  Seconds last_all_reduce_;
  Seconds last_reduce_scatter_;
  double taken_ = 0;  ///< `cost::taken_ratio`.
  /// Step on the host for all of a rank's sharded states, including their copies.
  Seconds host_adam_;
};

/// Time of one optimizer step of `plan` for Megatron. `blocks`: the times of its pieces.
[[nodiscard]] StepParts step_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                   const BlockTimes& blocks, const cost::Machine& machine);

/// A lower bound of `step_parts(...).total()` over all choices that the arguments leave open. It
/// assumes that nothing is recomputed, that the data-parallel communication is hidden, and that the
/// optimizer takes no time.
[[nodiscard]] Seconds least_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                 const BlockTimes& blocks);

}  // namespace headroom::plan
