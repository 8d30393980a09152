#pragma once

#include <optional>

#include "costmodel/estimate.h"

namespace headroom::cost {

/// What `estimate` would answer, computed from models with few layers. For a model of 80 layers it
/// takes a small part of the replay's time. Nothing if the model has few layers, or if its layers
/// do not repeat.
///
/// Model:   the layers repeat. Peaks, phases and step time of two models with few periods of layers
///          are continued along a straight line. Both are replayed with a limit that no allocation
///          reaches, so that `out_of_memory` is never set; the verdict is that of the continued
///          peaks.
/// Ignores: what happens only near the capacity (retries of the allocator, and what a framework
///          does otherwise if there is little room), buckets that fill up unevenly, and the
///          bubble's dependence on stages of unequal length. `timeline` and `program` are those of
///          the short model; only the peak of each phase is continued.
/// Errors:  those of `estimate`.
[[nodiscard]] std::optional<Result<StepEstimate>> quick_estimate(const ir::ModelSpec& model,
                                                                 const ir::ParallelPlan& plan,
                                                                 const DeviceSpec& device,
                                                                 Bytes budget = Bytes{0},
                                                                 const Machine* machine = nullptr);

}  // namespace headroom::cost
