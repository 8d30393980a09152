#pragma once

#include "runtimes/interface/runtime.h"

/// What frameworks based on FSDP share in the window.
namespace headroom::ir::fsdp {

/// Gives a plan without FSDP's options the default ones, and corrects replicas that do not divide
/// the ranks.
void settle_shards(ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
