#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// Ranks of a plan's pipeline; 1: it has none.
[[nodiscard]] inline std::int64_t pipeline_stages(const ParallelPlan& plan) {
  if (plan.megatron) {
    return plan.megatron->pipeline;
  }
  return plan.titan ? plan.titan->pipeline : 1;
}

}  // namespace headroom::ir
