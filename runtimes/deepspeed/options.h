#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::deepspeed {

/// `ParallelPlan::zero` with its table.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::deepspeed
