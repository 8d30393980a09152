#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::deepspeed {

/// The part `ParallelPlan::zero` and the table of its options.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::deepspeed
