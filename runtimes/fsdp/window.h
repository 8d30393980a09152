#pragma once

#include "runtimes/interface/runtime.h"

/// What frameworks on FSDP share in the window.
namespace headroom::ir::fsdp {

/// Gives the plan FSDP's part where it has none, and where its replicas do not divide the ranks.
void settle_shards(ParallelPlan& plan);

/// Copies of the sharded model.
[[nodiscard]] PlanControl replicas_control();

}  // namespace headroom::ir::fsdp
