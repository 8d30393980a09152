#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/save.h"

#include <doctest/doctest.h>

#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

cost::PhaseMemory saved(int stage) {
  ParallelPlan plan = test::small_plan(Precision::kBf16Master);
  plan.runtime = "deepspeed";
  plan.workload.keep_batch = false;
  plan.world = 8;
  plan.workload.steps = 1;
  edit_zero(plan).stage = stage;
  plan.workload.checkpoint_save = true;
  const auto program = lower(test::small_llama(), plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  return cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000}).phases.back();
}

}  // namespace

TEST_CASE("deepspeed save: stage 3 gathers one module after the other") {
  // The largest module is the embedding, 32000 x 1024 in bf16; its gathering was the peak of
  // _zero3_consolidated_16bit_state_dict recorded with DeepSpeed 0.19.8.
  const cost::PhaseMemory save = saved(3);
  CHECK(save.name.kind == PhaseKind::kCheckpointSave);
  CHECK(save.peak_allocated - save.allocated_before == Bytes{65'536'000});
  CHECK(save.allocated_after == save.allocated_before);
}

TEST_CASE("deepspeed save: the other stages copy to the host alone") {
  for (const int stage : {1, 2}) {
    CAPTURE(stage);
    const cost::PhaseMemory save = saved(stage);
    CHECK(save.name.kind == PhaseKind::kCheckpointSave);
    CHECK(save.peak_allocated == save.allocated_before);
  }
}

}  // namespace headroom::ir
