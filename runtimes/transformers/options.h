#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::transformers {

/// `ParallelPlan::ddp` with its table.
[[nodiscard]] const PlanPart& options();

}  // namespace headroom::ir::transformers
