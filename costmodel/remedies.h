#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "costmodel/change.h"
#include "costmodel/estimate.h"

namespace headroom::cost {

/// A changed plan and what it comes to.
struct Remedy {
  std::vector<Change> changes;  ///< In the order in which they were made.
  ir::ParallelPlan plan;
  Verdict verdict = Verdict::kDoesNotFit;
  Bytes peak_allocated;
  Bytes peak_reserved;
  Bytes margin;  ///< As `StepEstimate::margin`.
  Bytes saved;   ///< Reserved bytes that the original plan needs more; may be negative.
  /// Matrix FLOPs per token, as a multiple of the original plan's; 1 where nothing was replayed.
  double flops_ratio = 1;
  /// Parameters and states alone are too many, so that nothing was replayed: the peaks are what
  /// `memory_floor` says, margin and saved bytes at best.
  bool ruled_out = false;
  /// `layer_bound` says that it cannot mend, so that it was not replayed either; as above. Never
  /// among the cheapest.
  bool estimated = false;
  friend bool operator==(const Remedy&, const Remedy&) = default;
};

/// What can be done about a plan that does not fit, or only just.
struct Remedies {
  /// The cheapest that make it fit (fit comfortably, if it was tight), cheapest first; where those
  /// are too few, the ones that save the most and are not ruled out.
  std::vector<Remedy> cheapest;
  /// The decision tree from mixed precision to CPU offload, each step on top of those before it, up
  /// to the first that fits.
  std::vector<Remedy> tree;
  std::size_t replays = 0;  ///< Plans that were replayed.
  /// Least number of such GPUs that hold parameters, gradients and states of the plan if all of
  /// them are sharded.
  std::int64_t least_gpus = 1;
  friend bool operator==(const Remedies&, const Remedies&) = default;
};

/// When to walk the decision tree: always, and every step is replayed; or only where single changes
/// that mend are too few, and bounds may rule steps out.
enum class TreeWalk : std::uint8_t { kAlways, kWhenNeeded };

/// What is asked of `find_remedies`.
struct RemedyQuestion {
  const ir::ModelSpec& model;
  const ir::ParallelPlan& plan;
  const DeviceSpec& device;
  Bytes budget;           ///< As `estimate` takes it; 0: the device's total.
  std::size_t count = 3;  ///< Remedies wanted.
  TreeWalk tree = TreeWalk::kAlways;
};

/// Looks for the cheapest changes that mend `found`.
///
/// Model:   single changes of the framework, cheapest first, then the decision tree, which adds one
/// change
///          to the other and afterwards drops those that turn out not to be needed. Plans that
///          `memory_floor` rules out are not replayed; plans that the runtime refuses are left out.
/// Requires that `found` is the estimate of the question's plan. Deterministic.
[[nodiscard]] Remedies find_remedies(const RemedyQuestion& question, const StepEstimate& found);

}  // namespace headroom::cost
