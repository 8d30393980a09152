#pragma once

#include "runtimes/interface/runtime.h"

/// A plan that the window hands over to Megatron-Core.
namespace headroom::ir::megatron {

/// `Runtime::settle`: makes the degrees divide the ranks, turns checkpointing into Megatron's own
/// recomputation, and removes options that Megatron does not read.
void settle_plan(ParallelPlan& plan);

}  // namespace headroom::ir::megatron
