#pragma once

#include <vector>

#include "runtimes/interface/runtime.h"

/// torchtitan's controls in the window.
namespace headroom::ir::torchtitan {

/// `Runtime::settle`: makes the degrees divide the ranks, adds FSDP's part and AdamW, and removes
/// options that torchtitan does not read.
void settle_plan(ParallelPlan& plan);

/// Controls of degrees and replicas.
[[nodiscard]] std::vector<PlanControl> window_controls();

}  // namespace headroom::ir::torchtitan
