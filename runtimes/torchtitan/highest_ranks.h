#pragma once

#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtitan {

/// The ranks of a pipeline that can have the highest peak: the first two, the last two, and the
/// first and the last among ranks with the same number of layers.
///
/// Model:   among ranks with the same number of layers, the first has the most micro-batches in
///          flight. The last has the most postponed weight gradients if backward is split. The
///          second has receive buffers, which the first does not have.
/// Requires that `unsupported_pipeline` returns nothing.
[[nodiscard]] std::vector<Rank> highest_ranks(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::torchtitan
