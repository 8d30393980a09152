#pragma once

#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::ir::fsdp {

/// The changes that make an FSDP plan smaller, cheapest first. FSDP shards already, and its
/// mixed-precision policy sets the types.
[[nodiscard]] std::span<const OwnChange> plan_changes();

/// Plans that trade memory for speed: if communication is the bottleneck, parameters stay gathered
/// after forward; if offload is, shards stay on the device.
[[nodiscard]] std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck,
                                                     const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
