#pragma once

#include "runtimes/interface/plan_execution.h"

namespace headroom::ir::megatron {

/// A plan of Megatron-Core as `Runtime::execution` describes it. The layers of --recompute-method
/// block are those of each pipeline stage.
[[nodiscard]] PlanExecution execution(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::megatron
