#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::plan {

/// What plans of torchtitan's code take and keep at least, for one model on one machine.
///
/// Model:   every pass of a sequence runs the products, attention, memory-bound kernels and
///          collectives of tensor, context and expert parallelism that torchtitan gives the compute
///          stream, one behind the other; a layer of a short program of the same degrees shows
///          them. FSDP's copies, the host, other streams, the loss's forward in a pipeline and the
///          optimizer count as nothing.
/// Threads: may be called from any number of threads; answers do not depend on them.
class TitanFloor {
 public:
  /// Keeps references to all three.
  TitanFloor(const ir::ModelSpec& model, const cost::DeviceSpec& device,
             const cost::Machine& machine);

  /// What a step of `plan` takes at least.
  ///
  /// Model:   without a pipeline, so many micro-batches; layers wait for their gathers, all but two
  ///          of which are made while layers run, and in backward for the reductions behind them:
  ///
  ///              ends + max(L F, (L-2) gather) + max(L B, (L-2) gather if resharded, (L-2) reduce)
  ///
  ///          Rank s of a pipeline begins when the first
  ///          micro-batch has come through the ranks before it, works m (F + B), and where backward
  ///          is whole and the first chunks come last, the ranks before it end after it:
  ///
  ///              runs * max over s of  sum of F(k < s) + m (F + B)(s) + sum of B(k < s) +
  ///              reductions
  ///
  ///          with F and B of first chunks in the sums, of all chunks of the rank between them, and
  ///          the reductions behind, or the gathers before, the chunk with fewest layers, which
  ///          nothing hides.
  [[nodiscard]] Seconds least_step(const ir::ParallelPlan& plan);

  /// No plan that differs from `plan` in schedule, recomputation, resharding and compilation alone
  /// takes less.
  ///
  /// Model:   the slowest rank of a pipeline has the mean of all at least.
  [[nodiscard]] Seconds least_of_degrees(const ir::ParallelPlan& plan);

  /// What the peak of `plan` is at least.
  ///
  /// Model:   a rank's part of the parameters and, from the second step on, of the states; what its
  ///          layers keep of the passes that are in flight at once; parameters that stay gathered;
  ///          of a pipeline its buffers for what is received, and from a first backward on whole
  ///          gradients, which are reduced behind the last.
  [[nodiscard]] Bytes floor(const ir::ParallelPlan& plan);

  /// What layers that run again do not keep at the end of a forward.
  [[nodiscard]] Bytes let_go(const ir::ParallelPlan& plan);

  /// The rank of the pipeline whose floor is the highest, as the first of its processes.
  [[nodiscard]] ir::Rank heaviest(const ir::ParallelPlan& plan);

  /// Of one layer for one pass, and of what stands before and behind the layers.
  struct Pieces {
    Seconds forward;
    Seconds backward;
    Seconds ends;           ///< Embedding, head and loss, both ways.
    Seconds head_forward;   ///< Last norm and head.
    Seconds head_backward;  ///< Loss, head and last norm.
    std::int64_t kept = 0;  ///< Of the layer, at the end of forward.
    std::int64_t most_kept = 0;
    std::int64_t head_kept = 0;
  };

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, ir::LossKind, int, bool>;
  /// `again`: 0: nothing runs again; 1: by operators; 2: whole layers.
  [[nodiscard]] Pieces pieces(const ir::ParallelPlan& plan, int again);
  [[nodiscard]] Pieces sampled(const ir::ParallelPlan& one) const;
  /// What FSDP takes for one layer.
  struct Exchange {
    Seconds gather;
    Seconds reduce;
  };
  [[nodiscard]] Exchange exchange_of(const ir::ParallelPlan& plan) const;
  [[nodiscard]] Seconds pipeline_step(const ir::ParallelPlan& plan);
  [[nodiscard]] Bytes rank_floor(const ir::ParallelPlan& plan, std::int64_t rank);

  const ir::ModelSpec& model_;
  const cost::DeviceSpec& device_;
  const cost::Machine& machine_;
  std::mutex mutex_;
  std::map<Key, Pieces> pieces_;
};

}  // namespace headroom::plan
