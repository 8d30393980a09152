#pragma once

#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::check {

/// Refuses a plan that the training script of `validators/torch/python` cannot express.
///
/// Errors:  kInvalidInput naming `file`, the plan's option, its value, what the script knows and
///          what to do instead.
[[nodiscard]] Status check_script_options(const ir::ParallelPlan& plan, std::string_view file);

}  // namespace headroom::check
