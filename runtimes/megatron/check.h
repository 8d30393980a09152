#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Whether Megatron-Core can run `plan` with `model`: degrees divide what they shard, and no option
/// is set that Megatron-Core or its model here lacks.
///
/// Errors:  kInvalidArgument naming the key of `megatron`.
[[nodiscard]] Status check_megatron(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir
