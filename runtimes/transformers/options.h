#pragma once

#include "runtimes/interface/option.h"

namespace headroom::ir::transformers {

/// `ParallelPlan::ddp` with its table.
[[nodiscard]] const PlanPart& options();

/// Several GPUs are data parallel: adds or removes `ParallelPlan::ddp`.
void complete_data_parallel(ParallelPlan& plan);

}  // namespace headroom::ir::transformers
