#pragma once

#include <vector>

#include "runtimes/interface/runtime.h"

/// What the window offers of torchtitan.
namespace headroom::ir::torchtitan {

/// `Runtime::settle`: degrees that divide the ranks, FSDP's part, AdamW, and nothing that
/// torchtitan does not read.
void settle_plan(ParallelPlan& plan);

/// Degrees and replicas.
[[nodiscard]] std::vector<PlanControl> window_controls();

}  // namespace headroom::ir::torchtitan
