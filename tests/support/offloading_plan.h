#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/megatron/plan.h"

namespace headroom::test {

constexpr std::int64_t kOffloadingTokens = 2048;

/// Two steps of Megatron-Core on the ranks of one pipeline, with micro-batches of one sequence.
[[nodiscard]] inline ir::ParallelPlan offloading_plan(const ir::MegatronPlan& megatron,
                                                      std::int64_t stages = 1) {
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = ir::Precision::kBf16Master;
  plan.workload.sequence = kOffloadingTokens;
  plan.mesh.pipeline = stages;
  plan.world = stages;
  plan.workload.steps = 2;
  edit_megatron(plan) = megatron;
  return plan;
}

}  // namespace headroom::test
