#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::torchtune {

/// `ParallelPlan::tune` with its table.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::torchtune
