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

/// Lower bounds of the time and memory of plans for torchtitan, for one model on one machine.
///
/// Model:   every pass of a sequence runs, one after the other, the products, attention,
///          memory-bound kernels and collectives of tensor, context and expert parallelism that
///          torchtitan runs on the compute stream. They are read off a layer of a short program
///          with the same degrees. FSDP's copies, the host, other streams, the loss's forward in a
///          pipeline and the optimizer are not counted.
/// Threads: may be called from any number of threads; answers do not depend on them.
class TitanFloor {
 public:
  struct Samples;

  /// Keeps references to all arguments.
  TitanFloor(const ir::ModelSpec& model, const cost::DeviceSpec& device,
             const cost::Machine& machine, Samples& samples);

  /// A lower bound of the time of a step of `plan`.
  ///
  /// Model:   without a pipeline, the time of a micro-batch times their number. Layers wait for
  ///          their all-gathers, of which all but two run while layers run, and in backward for the
  ///          reductions after them:
  ///
  ///              ends + max(L F, (L-2) gather) + max(L B, (L-2) gather if resharded, (L-2) reduce)
  ///
  ///          Rank s of a pipeline begins when the first micro-batch has passed the ranks before
  ///          it. It works for m (F + B). If backward is whole and the first chunks come last, the
  ///          ranks before it end after it:
  ///
  ///              runs * max over s of  sum of F(k < s) + m (F + B)(s) + sum of B(k < s) +
  ///              reductions
  ///
  ///          In the sums, F and B are those of first chunks; between the sums they are those of
  ///          all chunks of the rank. The last term is the exposed reductions after, or the exposed
  ///          all-gathers before, the chunk with the fewest layers.
  [[nodiscard]] Seconds least_step(const ir::ParallelPlan& plan);

  /// A lower bound for all plans that differ from `plan` only in schedule, recomputation,
  /// resharding and compilation.
  ///
  /// Model:   the slowest rank of a pipeline takes at least the mean of all.
  [[nodiscard]] Seconds least_of_degrees(const ir::ParallelPlan& plan);

  /// A lower bound of the peak of `plan`.
  ///
  /// Model:   it counts a rank's part of the parameters and, from the second step on, of the
  ///          states; what its layers keep of the passes that are in flight together; and
  ///          parameters that stay gathered. In a pipeline it also counts the receive buffers and,
  ///          from a chunk's first backward to its last, unsharded gradients.
  [[nodiscard]] Bytes floor(const ir::ParallelPlan& plan);

  /// What recomputed layers do not keep at the end of a forward.
  [[nodiscard]] Bytes let_go(const ir::ParallelPlan& plan);

  /// The rank of the pipeline with the highest lower bound, given as the first of its processes.
  [[nodiscard]] ir::Rank heaviest(const ir::ParallelPlan& plan);

  /// Times and bytes of one layer for one pass, and of the operators before and after the layers.
  struct Pieces {
    Seconds forward;
    Seconds backward;
    Seconds ends;           ///< Embedding, head and loss, forward and backward.
    Seconds head_forward;   ///< Last norm and head.
    Seconds head_backward;  ///< Backward of loss, head and last norm.
    std::int64_t kept = 0;  ///< What the layer keeps at the end of forward.
    std::int64_t most_kept = 0;
    std::int64_t head_kept = 0;
  };

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, ir::LossKind, int, bool, ir::Precision>;
  /// `again`: 0: nothing is recomputed; 1: selective checkpointing by operators; 2: whole layers.
  [[nodiscard]] Pieces pieces(const ir::ParallelPlan& plan, int again);
  [[nodiscard]] Pieces sampled(const ir::ParallelPlan& one) const;
  /// Times of FSDP's collectives for one layer.
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
  Samples& samples_;
};

/// Pieces that searches of one model on one machine share.
struct TitanFloor::Samples {
  std::mutex mutex;
  std::map<Key, Pieces> pieces;
};

}  // namespace headroom::plan
