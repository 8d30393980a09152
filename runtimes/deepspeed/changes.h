#pragma once

#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::ir::deepspeed {

/// The changes that make a DeepSpeed plan smaller, cheapest first.
[[nodiscard]] std::span<const OwnChange> plan_changes();

/// Changes that pass a plan of another framework to DeepSpeed, as the argument --deepspeed of
/// transformers' Trainer does.
[[nodiscard]] std::span<const OwnChange> moves();

/// Plans that trade memory for speed: a lower ZeRO stage if communication is the bottleneck;
/// parameters or optimizer on the device if offload is.
[[nodiscard]] std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck,
                                                     const ParallelPlan& plan);

}  // namespace headroom::ir::deepspeed
