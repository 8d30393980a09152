#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::torchtune {

/// The part `ParallelPlan::tune` and the table of its options.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::torchtune
