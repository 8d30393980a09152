#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::fsdp {

/// `ParallelPlan::fsdp` with its table.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::fsdp
