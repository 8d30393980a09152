#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/device_work.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {

/// One axis of the process grid: its number of ranks, and this rank's index.
struct Axis {
  std::int64_t size = 1;
  std::int64_t rank = 0;
  /// Difference between the global ranks of neighbours on the axis.
  std::int64_t stride = 1;
  /// Used if two axes that are not adjacent in the grid are taken as one: `inner` is the number of
  /// ranks on the inner axis, and `outer_stride` the distance between those of the outer. `inner`
  /// is 0 if there is one axis.
  std::int64_t inner = 0;
  std::int64_t outer_stride = 1;

  [[nodiscard]] RankGroup group() const {
    return inner > 0 ? RankGroup{.size = inner,
                                 .stride = stride,
                                 .outer_size = size / inner,
                                 .outer_stride = outer_stride}
                     : RankGroup{.size = size, .stride = stride};
  }
};

/// The process groups of one rank.
///
/// Model:  the order is tp-cp-ep-dp-pp, and the first varies fastest. Experts have a grid of their
///         own, etp-ep-edp-pp, over the same ranks. With --use-tp-pp-dp-mapping, pipeline and data
///         are swapped in both.
/// Source: NVIDIA/Megatron-LM megatron/core/parallel_state.py, RankGenerator.
struct RankGrid {
  Axis tensor;
  Axis context;
  Axis data;
  Axis pipeline;
  Axis expert_tensor;
  Axis expert;
  Axis expert_data;
  std::int64_t world = 1;
  /// Instances of the distributed optimizer, each with a full copy of the sharded states.
  std::int64_t instances = 1;

  /// Gradients and optimizer states of dense parameters are sharded over data-parallel and
  /// context-parallel ranks, within one instance of the distributed optimizer.
  [[nodiscard]] Axis data_context() const {
    Axis both{data.size * context.size, context.rank + context.size * data.rank, context.stride};
    if (context.size == 1) {
      both.stride = data.stride;
    } else if (data.stride != context.size * context.stride) {
      both.inner = context.size;
      both.outer_stride = data.stride;
    }
    return instance_of(both);
  }
  /// The ranks over which one instance of the distributed optimizer shards states of experts.
  [[nodiscard]] Axis expert_data_instance() const { return instance_of(expert_data); }
  /// The ranks that hold the same shard in the other instances.
  [[nodiscard]] Axis copies_of(const Axis& instance) const {
    return {.size = instances, .stride = instance.stride * instance.size};
  }
  [[nodiscard]] bool first_stage() const { return pipeline.rank == 0; }
  [[nodiscard]] bool last_stage() const { return pipeline.rank == pipeline.size - 1; }

 private:
  [[nodiscard]] Axis instance_of(const Axis& whole) const {
    const std::int64_t size = std::max<std::int64_t>(whole.size / instances, 1);
    return {size, whole.rank % size, whole.stride, whole.inner, whole.outer_stride};
  }
};

/// Errors: kInvalidArgument naming the degree that does not divide the number of ranks.
[[nodiscard]] Result<RankGrid> rank_grid(const ParallelPlan& plan, std::int64_t rank);

}  // namespace headroom::ir::megatron
