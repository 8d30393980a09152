#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::fsdp {

/// The part `ParallelPlan::fsdp` and the table of its options.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::fsdp
