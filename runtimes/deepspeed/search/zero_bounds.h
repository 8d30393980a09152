#pragma once

#include <optional>

#include "planner/evaluate/plan_bounds.h"

namespace headroom::plan {

/// Bounds of DeepSpeed's plans.
class ZeroBounds final : public AloneBounds {
 public:
  using AloneBounds::AloneBounds;

  /// Model:   as `AloneBounds`. On several GPUs, where buckets fill up after some layers, the time
  ///          alone has a bound, and only if the whole optimizer is on the host: the host waits for
  ///          backward, steps, and the compute stream waits for the host, so that these times add
  ///          up. The host's part grows by a constant with each layer, and two programs
  ///          of few layers and one micro-batch show it; `kLeastShare` of it counts.
  [[nodiscard]] Result<std::optional<SampledBound>> sampled(const ir::ParallelPlan& plan,
                                                            LoweredPlans& plans) override;

  /// Model:   a moment of the other plan's program is also one of this plan's, which has more
  ///          layers recomputed: everything is alive then that is alive there, but for what forward
  ///          keeps of these layers. A layer keeps no more than an equal part of what the forward
  ///          of the other plan keeps in those layers that it does not recompute, and one layer
  ///          more counts. Buckets of gradients fill up in the same order.
  /// Ignores: plans with adapters, models whose layers differ, and stage 3, where a recomputation
  ///          also changes which parameters are gathered: there is no bound for them.
  [[nodiscard]] Bytes least_peak(const ir::ParallelPlan& plan, const ir::ParallelPlan& other,
                                 const LoweredPlan& figures) override;
};

}  // namespace headroom::plan
