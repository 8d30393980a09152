#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtune {

/// Whether torchtune builds models of this family.
///
/// Source:  pytorch/torchtune, the folders of torchtune/models.
/// Errors:  kInvalidArgument, which names the model.
[[nodiscard]] Status check_family(const ModelSpec& model);

/// Whether a recipe of torchtune accepts the plan.
///
/// Errors:  kInvalidArgument, which names the option.
[[nodiscard]] Status check_torchtune(const ParallelPlan& plan);

}  // namespace headroom::ir::torchtune
