#pragma once

#include <cstdint>

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::plan {

/// The parts of a step's time, on the stage that takes longest.
struct StepParts {
  Seconds forward_backward;  ///< All micro-batches, with the communication inside layers.
  Seconds recomputation;
  Seconds bubble;    ///< Time in which the pipeline fills and drains.
  Seconds exchange;  ///< Exposed time of data-parallel gradient and parameter exchange.
  Seconds optimizer;
  Seconds offload;   ///< Exposed time of copies to and from the host and of its work.
  Seconds launches;  ///< Time in which the device waits for launches; of lowered plans.
  [[nodiscard]] Seconds total() const {
    return forward_backward + recomputation + bubble + exchange + optimizer + offload + launches;
  }
};

/// A plan and its figures.
struct RatedPlan {
  ir::ParallelPlan plan;
  StepParts time;
  Bytes peak;
  Bytes capacity;            ///< Bytes that the allocator may take.
  std::uint64_t number = 0;  ///< Number in the order of the space.
  Bytes host{};              ///< What a node's ranks take of its host's memory.
  Bytes host_capacity{};     ///< The node's memory; 0: it is not judged.
  bool host_fits = true;     ///< Memory and drives of the node suffice.
};

/// How many plans got their peaks in which way.
struct MemoryCounts {
  std::uint64_t plans = 0;     ///< Plans whose peak was asked for.
  std::uint64_t families = 0;  ///< Families that were made.
  std::uint64_t samples = 0;   ///< Short programs lowered for them.
  std::uint64_t lowered = 0;   ///< Whole programs lowered.
};

/// Sums in another order differ in their last digits. A lower bound of a time is multiplied by
/// this, so that it stays below the time.
inline constexpr double kFloorRounding = 1 - 1e-9;

}  // namespace headroom::plan
