#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::test {

/// A run as torchtitan's Trainer sets it up: FSDP2 on `world` ranks, fp32 masters, fused AdamW, one
/// sequence of 1024 tokens, expandable segments as its launcher has them.
[[nodiscard]] inline ir::ParallelPlan titan_plan(std::int64_t world,
                                                 const ir::TitanPlan& titan = {}) {
  ir::ParallelPlan plan;
  plan.runtime = "torchtitan";
  plan.precision = ir::Precision::kFp32;
  plan.optimizer.form = ir::OptimizerForm::kFused;
  plan.sequence = 1024;
  plan.world = world;
  plan.fsdp.emplace();
  plan.titan = titan;
  plan.allocator.expandable_segments = true;
  return plan;
}

}  // namespace headroom::test
