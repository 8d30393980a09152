#pragma once

#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::ir::fsdp {

/// What can be changed about a plan of FSDP to make it smaller, cheapest first: it shards already,
/// and its policy sets the types.
[[nodiscard]] std::span<const OwnChange> plan_changes();

/// Parameters that stay gathered after forward, against communication; shards on the device,
/// against offload.
[[nodiscard]] std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck,
                                                     const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
