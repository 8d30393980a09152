#pragma once

#include <cstdint>

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::plan {

/// Where a step's time goes, on the stage that takes longest.
struct StepParts {
  Seconds forward_backward;  ///< All micro-batches; communication inside layers is part of it.
  Seconds recomputation;
  Seconds bubble;    ///< The pipeline fills and drains.
  Seconds exchange;  ///< Gradients and parameters among data-parallel ranks, what shows of it.
  Seconds optimizer;
  Seconds offload;   ///< Copies to and from the host and its work, what shows of it.
  Seconds launches;  ///< The device waits for the host to launch kernels; of lowered plans.
  [[nodiscard]] Seconds total() const {
    return forward_backward + recomputation + bubble + exchange + optimizer + offload + launches;
  }
};

/// One plan with its figures.
struct RatedPlan {
  ir::ParallelPlan plan;
  StepParts time;
  Bytes peak;
  Bytes capacity;            ///< What the allocator may take under it.
  std::uint64_t number = 0;  ///< In the order of the space.
  Bytes host{};              ///< What a node's ranks take of its host's memory.
  Bytes host_capacity{};     ///< The node's memory; 0: it is not judged.
  bool host_fits = true;     ///< Memory and drives of the node suffice.
};

/// How peaks came about.
struct MemoryCounts {
  std::uint64_t plans = 0;     ///< Asked for.
  std::uint64_t families = 0;  ///< Made.
  std::uint64_t samples = 0;   ///< Short programs lowered for them.
  std::uint64_t lowered = 0;   ///< Whole programs lowered.
};

}  // namespace headroom::plan
