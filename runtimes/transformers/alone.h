#pragma once

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::transformers {

/// One micro-batch of `plan`, whose framework runs transformers' model code: without everything
/// that serves the other ranks or the optimizer, in the types in which `plan` computes.
[[nodiscard]] ParallelPlan one_rank_alone(const ParallelPlan& plan);

}  // namespace headroom::ir::transformers
