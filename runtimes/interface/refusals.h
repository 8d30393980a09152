#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/error.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

/// Refusals that several frameworks share.
namespace headroom::ir {

/// "1, 2, 4 or 8": the divisors of `count`, the first twelve if there are more.
[[nodiscard]] std::string divisors_text(std::int64_t count);
/// For a degree that does not divide the GPUs: `got` is its key and value, "replicas=3".
[[nodiscard]] Error no_divisor_of_gpus(std::string_view option, std::string_view got,
                                       std::int64_t gpus);

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
