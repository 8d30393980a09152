#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::torchtitan {

/// `ParallelPlan::titan` with its table of options.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::torchtitan
