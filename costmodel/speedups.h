#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/estimate.h"
#include "runtimes/interface/change.h"

namespace headroom::cost {

using ir::Bottleneck;
using ir::describe;

/// A bottleneck with at least this share of the step is looked at, and a change that makes a step
/// faster by at least `kLeastGain` is reported. Choices, not measurements.
inline constexpr double kBottleneckShare = 0.02;
inline constexpr double kLeastGain = 0.01;

/// A changed plan that fits and is faster.
struct Speedup {
  Bottleneck bottleneck = Bottleneck::kCommunication;
  double share = 0;  ///< The bottleneck's share of the original step.
  ir::ParallelPlan plan;
  double gain = 0;  ///< Tokens per second relative to the original plan, minus 1.
  Verdict verdict = Verdict::kFits;
  Bytes margin;
};

struct SpeedupQuestion {
  const ir::ModelSpec& model;
  const ir::ParallelPlan& plan;
  const DeviceSpec& device;
  Bytes budget;  ///< As in `estimate`.
  const Machine& machine;
  Judge judge{};  ///< Applied to every replay; none: the replay's own verdict.
};

/// The bottleneck's share of a step.
[[nodiscard]] double share_of(const StepTime& step, Bottleneck bottleneck);

/// Single changes against `bottleneck`, except replaced kernels: larger micro-batches, and the
/// framework's own, such as less sharding, overlap or smaller groups; more chunks per stage or
/// fewer stages; states and parameters on the device; fewer layers recomputed. The tokens per step
/// stay the same, unless a micro-batch grows and there is no accumulation to shorten. The framework
/// may refuse some.
[[nodiscard]] std::vector<ir::ParallelPlan> changes_against(const ir::ParallelPlan& plan,
                                                            Bottleneck bottleneck,
                                                            std::int64_t layers);

/// For every bottleneck of `found`, the change of the framework's own that helps most and the
/// larger micro-batch that does, with their gains. A larger micro-batch without accumulation to
/// shorten enlarges the batch of a step.
///
/// Model:   memory and time of every change are replayed on the same machine. Changes that do not
///          fit or are not faster are left out. Kernels are replaced one on top of the other, each
///          if it adds `kLeastGain` (mixed precision, fused attention, fused optimizer, Liger), and
///          the larger micro-batch is then that of the plan with all of them.
/// Requires that `found` is the estimate of the question's plan, with its time. Deterministic.
[[nodiscard]] std::vector<Speedup> find_speedups(const SpeedupQuestion& question,
                                                 const StepEstimate& found);

}  // namespace headroom::cost
