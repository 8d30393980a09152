#pragma once

#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

/// Refusals that several frameworks share.
namespace headroom::ir {

/// Errors:  kInvalidArgument naming --runtime-version where the plan sets it, for a framework of
///          which one version is modelled.
[[nodiscard]] Status refuse_version(const ParallelPlan& plan);

/// Errors:  kInvalidArgument naming the task where the model has a head that classifies, for
///          `runtime`, whose own model code has none.
[[nodiscard]] Status refuse_other_tasks(const ModelSpec& model, std::string_view runtime);

}  // namespace headroom::ir
