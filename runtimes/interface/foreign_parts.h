#pragma once

#include <initializer_list>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// Refuses a plan that holds the options of a framework which does not run it. `own` names the
/// parts that the plan's framework reads: "ddp", "zero", "fsdp", "megatron", "titan", "tune".
///
/// Errors:  kInvalidArgument naming the part and the framework that has it.
[[nodiscard]] Status refuse_foreign_parts(const ParallelPlan& plan,
                                          std::initializer_list<std::string_view> own);

}  // namespace headroom::ir
