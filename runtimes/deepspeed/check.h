#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::deepspeed {

/// Whether a DeepSpeed engine accepts the plan.
///
/// Errors:  kInvalidArgument, which names the option or the key of DeepSpeed's configuration.
/// Source:  deepspeedai/DeepSpeed 0.19.8, files as named at each check.
[[nodiscard]] Status check_deepspeed(const ParallelPlan& plan);

}  // namespace headroom::ir::deepspeed
