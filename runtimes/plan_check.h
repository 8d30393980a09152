#pragma once

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Refuses errors that no single field of a plan shows: parts that exclude each other, a sequence
/// longer than the model's positions, tensors of more than 2^56 elements.
///
/// Errors:  kInvalidArgument naming the option to change.
[[nodiscard]] Status check_plan(const ModelSpec& model, const ParallelPlan& plan);

/// Refuses images for a model that is no recording, because only recordings have code that reads
/// them. `check_plan` does this, too.
[[nodiscard]] Status check_images(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir
