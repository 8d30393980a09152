#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
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
  std::vector<Change> changes;  ///< The changes, in the order in which they were made.
  ir::ParallelPlan plan;
  Verdict verdict = Verdict::kDoesNotFit;
  Bytes peak_allocated;
  Bytes peak_reserved;
  Bytes margin;  ///< The same as `StepEstimate::margin`.
  Bytes saved;   ///< Reserved bytes that the original plan needs in addition; may be negative.
  std::optional<double> chance;  ///< The same as `StepEstimate::chance`.
  HostMemory host;  ///< The same as `StepEstimate::host`; empty if nothing was replayed.
  /// Matrix FLOPs per token, relative to the original plan; 1 if nothing was replayed.
  double flops_ratio = 1;
  /// Time per token and GPU, relative to the original plan; 0 if it is not known.
  double time_ratio = 0;
  /// Parameters and states alone are too large, so nothing was replayed. The peaks come from
  /// `memory_floor`; margin and saved bytes are upper bounds.
  bool ruled_out = false;
  /// `layer_bound` shows that the plan cannot fit, so it was not replayed either; as above. Never
  /// among the cheapest.
  bool estimated = false;
  friend bool operator==(const Remedy&, const Remedy&) = default;
};

/// The memory that is left where it is scarcest, on the device or on the host; negative: missing.
[[nodiscard]] Bytes least_margin(Bytes device_margin, const HostMemory& host);

/// What can be done about a plan that does not fit, or that is tight.
struct Remedies {
  /// Changes, single and combined, after which the plan fits (comfortably, if it was tight): those
  /// that train the same first, then by the time that they add to a step. None includes another
  /// one. If nothing fits: those that save the most and are not ruled out.
  std::vector<Remedy> cheapest;
  /// The decision tree from mixed precision to CPU offload. Each step is added to those before it,
  /// up to the first plan that fits.
  std::vector<Remedy> tree;
  std::size_t replays = 0;  ///< Plans that were replayed.
  /// Least number of such GPUs that can hold the plan's parameters, gradients and states, all of
  /// them sharded; 0: a process takes all memory of such a GPU before its first tensor.
  std::int64_t least_gpus = 1;
  /// If nothing fits on the plan's GPUs, or if the host is short and nothing that trains the same
  /// fits: a plan that trains the same and fits on more GPUs, in whole nodes. Its changes are those
  /// besides the number of GPUs.
  std::optional<Remedy> wider;
  /// If nothing at all was found: the plan with the smallest lack of memory.
  std::optional<Remedy> leanest;
  bool cut_short = false;  ///< The time limit ended the search.
  friend bool operator==(const Remedies&, const Remedies&) = default;
};

/// Whether the decision tree is walked. kAlways: every step is replayed. kNone: it is left out.
enum class TreeWalk : std::uint8_t { kAlways, kNone };

/// The input of `find_remedies`.
struct RemedyQuestion {
  const ir::ModelSpec& model;
  const ir::ParallelPlan& plan;
  const DeviceSpec& device;
  Bytes budget;           ///< The same as in `estimate`; 0: the device's total.
  std::size_t count = 3;  ///< Number of remedies wanted of those that train the same.
  TreeWalk tree = TreeWalk::kAlways;
  const Machine* machine = nullptr;  ///< Null: remedies are ordered by their prices.
  /// The load of experts (`with_load`) that `plan` has. Step times are those of an even share.
  double load = 1;
  /// No replay starts after this time. Half of it is for the plan's own number of GPUs. The answer
  /// does not depend on the clock before.
  Seconds limit{20};
  Judge judge{};           ///< Applied to every replay; none: the replay's own verdict.
  std::stop_token stop{};  ///< Ends the search as the time limit does.
};

}  // namespace headroom::cost
