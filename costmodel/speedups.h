#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "costmodel/estimate.h"
#include "runtimes/interface/change.h"

namespace headroom::cost {

using ir::Bottleneck;
using ir::describe;

/// From this share of the step on, a bottleneck is worth a word. A choice, not a measurement.
inline constexpr double kBottleneckShare = 0.1;

/// A changed plan that fits and is faster.
struct Speedup {
  Bottleneck bottleneck = Bottleneck::kCommunication;
  double share = 0;  ///< Of the original step that the bottleneck takes.
  ir::ParallelPlan plan;
  double gain = 0;  ///< Tokens per second over the original's, less 1.
  Verdict verdict = Verdict::kFits;
  Bytes margin;
};

struct SpeedupQuestion {
  const ir::ModelSpec& model;
  const ir::ParallelPlan& plan;
  const DeviceSpec& device;
  Bytes budget;  ///< As `estimate` takes it.
  const Machine& machine;
};

/// How much of a step a bottleneck takes.
[[nodiscard]] double share_of(const StepTime& step, Bottleneck bottleneck);

/// Single changes against `bottleneck`: larger micro-batches, and what the framework has, such as
/// less sharding, overlap, smaller groups; several chunks on a stage, fewer stages; states and
/// parameters on the device. The tokens of a step stay, but where a micro-batch grows and there is
/// no accumulation to shorten. The framework may refuse some.
[[nodiscard]] std::vector<ir::ParallelPlan> changes_against(const ir::ParallelPlan& plan,
                                                            Bottleneck bottleneck,
                                                            std::int64_t layers);

/// For every bottleneck of `found` the change that helps most, with what it gains.
///
/// Model:   every change is replayed on the same machine, memory and time; those that do not fit
///          or are not faster are left out.
/// Requires that `found` is the estimate of the question's plan, with its time. Deterministic.
[[nodiscard]] std::vector<Speedup> find_speedups(const SpeedupQuestion& question,
                                                 const StepEstimate& found);

}  // namespace headroom::cost
