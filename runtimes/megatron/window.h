#pragma once

#include <vector>

#include "runtimes/interface/runtime.h"

/// Megatron-Core's controls in the window.
namespace headroom::ir::megatron {

/// `Runtime::settle`: makes the degrees divide the ranks, turns checkpointing into Megatron's own
/// recomputation, and removes options that Megatron does not read.
void settle_plan(ParallelPlan& plan);

[[nodiscard]] std::vector<PlanControl> window_controls();

/// `Runtime::recomputation`.
[[nodiscard]] Recompute recomputation_of(const ParallelPlan& plan);
void put_recomputation(ParallelPlan& plan, Recompute recompute);

}  // namespace headroom::ir::megatron
