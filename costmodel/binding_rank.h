#pragma once

#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// The ranks that can have the highest peak. If the plan names a rank, only that one.
[[nodiscard]] std::vector<ir::Rank> binding_ranks(const ir::ModelSpec& model,
                                                  const ir::ParallelPlan& plan);

}  // namespace headroom::cost
