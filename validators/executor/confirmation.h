#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/memory/timeline.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "validators/executor/rank.h"

namespace headroom::exec {

/// A backend's device, and how much of it may be used.
struct DeviceChoice {
  const HeadroomDeviceTable* backend = nullptr;
  int ordinal = 0;
  std::optional<Bytes> budget{};  ///< The allocator's budget; none: all that is free.
};

/// An execution on a device beside what was predicted for it.
struct Confirmation {
  Bytes capacity;  ///< Bytes that the allocators had on both sides.
  cost::MemoryTimeline predicted;
  /// The bytes that a prediction that does not fit would need: its highest reserved bytes without a
  /// limit.
  Bytes needed;
  RankRun measured;
};

/// The first rank of the pipeline stage that is predicted to reserve the most; the first of equal
/// ones. Ranks of one stage are alike.
[[nodiscard]] int binding_rank(Execution execution);

/// Predicts the execution's rank, then runs it.
///
/// Errors:  those of `run_rank`.
[[nodiscard]] Result<Confirmation> confirm(const Execution& execution, const DeviceChoice& choice);

/// Time of the execution's last step on `machine`, as `plan` would be priced there.
///
/// Model:   costmodel/time/program_time.h. The host launches kernels as fast as the driver takes
///          them, or as those of a CUDA graph where that was not measured: the executor's loop has
///          no Python and looks at no results.
[[nodiscard]] Seconds predicted_step(const Execution& execution, const ir::ParallelPlan& plan,
                                     const cost::Machine& machine);

/// The largest micro-batch that `fits`, found by doubling and halving; 0: not even one sequence.
/// Predicted without a device, or measured by running one step of each. Batches whose tokens cannot
/// be shared evenly by the tensor-parallel ranks are left out where they share tokens.
struct LargestBatch {
  std::int64_t predicted = 0;
  std::int64_t measured = 0;
  std::int64_t limit = 0;  ///< The largest that is tried (`kMostSequences`).
};
/// Errors:  those of `check_execution` and of `run_rank`.
[[nodiscard]] Result<LargestBatch> largest_batch(Execution execution, const DeviceChoice& choice);

}  // namespace headroom::exec
