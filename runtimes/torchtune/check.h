#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::torchtune {

/// Whether a recipe of torchtune accepts the plan.
///
/// Errors:  kInvalidArgument, which names the option.
[[nodiscard]] Status check_torchtune(const ParallelPlan& plan);

}  // namespace headroom::ir::torchtune
