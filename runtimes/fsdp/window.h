#pragma once

#include "runtimes/interface/runtime.h"

/// What frameworks based on FSDP share in the window.
namespace headroom::ir::fsdp {

/// Gives a plan without FSDP's options the default ones, and corrects replicas that do not divide
/// the ranks.
void settle_shards(ParallelPlan& plan);

/// The control for the number of replicas of the sharded model.
[[nodiscard]] PlanControl replicas_control();

}  // namespace headroom::ir::fsdp
