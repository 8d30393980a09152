#pragma once

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir::transformers {

/// One micro-batch of `plan`, whose framework runs transformers' model code: without everything
/// that serves the other ranks or the optimizer, in the types of `arithmetic`.
[[nodiscard]] ParallelPlan one_rank_alone(const ParallelPlan& plan, Precision arithmetic);

/// The precision of the arithmetic where the framework casts nothing: without fp32 masters.
[[nodiscard]] Precision without_masters(Precision precision);

}  // namespace headroom::ir::transformers
