#pragma once

#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

/// Refusals that several frameworks share.
namespace headroom::ir {

/// For a framework of which one version is modelled.
/// Errors:  kInvalidArgument naming --runtime-version if the plan sets it.
[[nodiscard]] Status refuse_version(const ParallelPlan& plan);

/// For a framework whose own model code cannot checkpoint the first layers alone.
/// Errors:  kInvalidArgument naming --checkpointing if the plan does.
[[nodiscard]] Status refuse_first_layers(const ParallelPlan& plan);

/// For `runtime`, whose own model code has no classification head.
/// Errors:  kInvalidArgument naming the task if the model has one.
[[nodiscard]] Status refuse_other_tasks(const ModelSpec& model, std::string_view runtime);

}  // namespace headroom::ir
