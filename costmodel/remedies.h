#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::cost {

using ir::Change;
using ir::cost_of;
using ir::describe;
using ir::source_of;

/// `plan` with the change applied as its framework does it. Nothing if the framework lacks it, the
/// plan has it already, it does not apply to the plan, or the device does not support it.
[[nodiscard]] std::optional<ir::ParallelPlan> with_change(const ir::ParallelPlan& plan,
                                                          const Change& change,
                                                          const DeviceSpec& device);

/// A changed plan and its result.
struct Remedy {
  std::vector<Change> changes;  ///< In the order in which they were made.
  ir::ParallelPlan plan;
  Verdict verdict = Verdict::kDoesNotFit;
  Bytes peak_allocated;
  Bytes peak_reserved;
  Bytes margin;  ///< As `StepEstimate::margin`.
  Bytes saved;   ///< Reserved bytes that the original plan needs in addition; may be negative.
  /// Matrix FLOPs per token, relative to the original plan; 1 if nothing was replayed.
  double flops_ratio = 1;
  /// Parameters and states alone are too large, so nothing was replayed. The peaks come from
  /// `memory_floor`; margin and saved bytes are upper bounds.
  bool ruled_out = false;
  /// `layer_bound` shows that the plan cannot fit, so it was not replayed either; as above. Never
  /// among the cheapest.
  bool estimated = false;
  friend bool operator==(const Remedy&, const Remedy&) = default;
};

/// What can be done about a plan that does not fit, or that is tight.
struct Remedies {
  /// The cheapest changes after which the plan fits (comfortably, if it was tight), cheapest first.
  /// If there are too few, also those that save the most and are not ruled out.
  std::vector<Remedy> cheapest;
  /// The decision tree from mixed precision to CPU offload. Each step is added to those before it,
  /// up to the first plan that fits.
  std::vector<Remedy> tree;
  std::size_t replays = 0;  ///< Plans that were replayed.
  /// Least number of such GPUs that can hold the plan's parameters, gradients and states, all of
  /// them sharded.
  std::int64_t least_gpus = 1;
  friend bool operator==(const Remedies&, const Remedies&) = default;
};

/// When to walk the decision tree. kAlways: always, and every step is replayed. kWhenNeeded: only
/// if too few single changes suffice; bounds may rule steps out.
enum class TreeWalk : std::uint8_t { kAlways, kWhenNeeded };

/// The input of `find_remedies`.
struct RemedyQuestion {
  const ir::ModelSpec& model;
  const ir::ParallelPlan& plan;
  const DeviceSpec& device;
  Bytes budget;           ///< As in `estimate`; 0: the device's total.
  std::size_t count = 3;  ///< Number of remedies wanted.
  TreeWalk tree = TreeWalk::kAlways;
};

/// Looks for the cheapest changes that make `found` fit.
///
/// Model:   single changes of the framework, cheapest first, then the decision tree, which
///          accumulates changes and afterwards drops those that are not needed. Plans that
///          `memory_floor` rules out are not replayed; plans that the runtime refuses are left out.
/// Requires that `found` is the estimate of the question's plan. Deterministic.
[[nodiscard]] Remedies find_remedies(const RemedyQuestion& question, const StepEstimate& found);

}  // namespace headroom::cost
