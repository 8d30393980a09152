#pragma once

#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtitan {

/// The ranks of a pipeline among which the one with the highest peak is: the first two and the last
/// two, and the first and the last of those that hold as many layers.
///
/// Model:   of ranks with as many layers the first has most micro-batches in flight, the last most
///          weights' gradients put off where backward is split; the second receives what the first
///          does not.
/// Requires that `unsupported_pipeline` has nothing to say.
[[nodiscard]] std::vector<Rank> highest_ranks(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::torchtitan
