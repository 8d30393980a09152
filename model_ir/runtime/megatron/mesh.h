#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/device_work.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::megatron {

/// One axis of the process grid: how many ranks it has, and which of them this one is.
struct Axis {
  std::int64_t size = 1;
  std::int64_t rank = 0;
  std::int64_t stride = 1;  ///< Between the ranks of the process that neighbours have.

  [[nodiscard]] RankGroup group() const { return {.size = size, .stride = stride}; }
};

/// The process groups of one rank.
///
/// Model:  order tp-cp-ep-dp-pp, the first varying fastest; experts have a grid of their own,
///         etp-ep-edp-pp, over the same ranks.
/// Source: NVIDIA/Megatron-LM megatron/core/parallel_state.py, RankGenerator.
struct Mesh {
  Axis tensor;
  Axis context;
  Axis data;
  Axis pipeline;
  Axis expert_tensor;
  Axis expert;
  Axis expert_data;
  std::int64_t world = 1;

  /// Gradients and optimizer states of dense parameters are spread over data and context.
  [[nodiscard]] Axis data_context() const {
    return {data.size * context.size, context.rank + context.size * data.rank, context.stride};
  }
  [[nodiscard]] bool first_stage() const { return pipeline.rank == 0; }
  [[nodiscard]] bool last_stage() const { return pipeline.rank == pipeline.size - 1; }
};

/// Errors: kInvalidArgument naming the degree that does not divide the number of ranks.
[[nodiscard]] Result<Mesh> mesh_of(const MegatronPlan& plan, std::int64_t world, std::int64_t rank);

}  // namespace headroom::ir::megatron
