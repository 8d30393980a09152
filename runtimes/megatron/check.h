#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Whether a plan for the runtime megatron can be carried out with `model`: degrees divide what
/// they cut, and nothing is asked for that Megatron-Core or its model here does not have.
///
/// Errors:  kInvalidArgument naming the key of `megatron`.
[[nodiscard]] Status check_megatron(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir
