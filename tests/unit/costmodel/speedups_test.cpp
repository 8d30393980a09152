#include "costmodel/speedups.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/megatron/plan.h"

#include <doctest/doctest.h>

namespace headroom::cost {

TEST_CASE("speedups: the share of a bottleneck is that of its parts") {
  StepTime step;
  step.parts.add(StepPart::kMatrix, Seconds{6});
  step.parts.add(StepPart::kBubble, Seconds{2});
  step.parts.add(StepPart::kPipeline, Seconds{1});
  step.parts.add(StepPart::kData, Seconds{1});
  step.total = step.parts.total();
  CHECK(share_of(step, Bottleneck::kBubble) == doctest::Approx(0.3));
  CHECK(share_of(step, Bottleneck::kCommunication) == doctest::Approx(0.1));
  CHECK(share_of(step, Bottleneck::kSmallBatch) == 0);
  step.parts.add(StepPart::kAttention, Seconds{2});
  step.parts.add(StepPart::kMemoryBound, Seconds{1});
  step.parts.add(StepPart::kOptimizer, Seconds{2});
  step.total = step.parts.total();
  CHECK(share_of(step, Bottleneck::kKernels) == doctest::Approx(1.0 / 3));
}

TEST_CASE("speedups: changes keep the tokens of a step where they can") {
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{.sequence_parallel = true, .distributed_optimizer = true};
  plan.mesh = {.tensor = 4, .pipeline = 4};
  plan.world = 32;
  plan.workload.micro_batch = 2;
  plan.workload.accumulation = 16;
  const auto tokens = [](const ir::ParallelPlan& p) {
    return p.workload.micro_batch * p.workload.accumulation * p.world / p.mesh.tensor /
           p.mesh.pipeline;
  };
  int changes = 0;
  for (const Bottleneck bottleneck : {Bottleneck::kCommunication, Bottleneck::kSmallBatch,
                                      Bottleneck::kBubble, Bottleneck::kOffload}) {
    for (const ir::ParallelPlan& changed : changes_against(plan, bottleneck, 32)) {
      CHECK_FALSE(changed == plan);
      CHECK(tokens(changed) == tokens(plan));
      ++changes;
    }
  }
  // Four larger micro-batches against all but the bubble; 3 more for communication, 3 for the
  // bubble.
  CHECK(changes == 18);
  edit_megatron(plan).layers_per_chunk = 1;  // Eight chunks already: no smaller ones.
  CHECK(changes_against(plan, Bottleneck::kBubble, 32).size() == 2);
  edit_megatron(plan).offloaded_layers = 8;
  const std::vector<ir::ParallelPlan> fewer = changes_against(plan, Bottleneck::kOffload, 32);
  REQUIRE(fewer.size() == 6);
  CHECK(megatron_of(fewer[0]).offloaded_layers == 4);
  CHECK(megatron_of(fewer[1]).offloaded_layers == 0);
}

TEST_CASE("speedups: ZeRO++ and less sharding against the communication of ZeRO-3") {
  ir::ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.precision = ir::Precision::kBf16Master;
  plan.world = 16;
  edit_zero(plan).stage = 3;
  int partitions = 0;
  int quantised = 0;
  int larger = 0;
  for (const ir::ParallelPlan& changed : changes_against(plan, Bottleneck::kCommunication, 32)) {
    partitions += zero_of(changed).hpz_partition_size == 8 ? 1 : 0;
    quantised += zero_of(changed).quantized_weights ? 1 : 0;
    larger += changed.workload.micro_batch > 1 ? 1 : 0;
    CHECK((zero_of(changed).stage == 3 || zero_of(changed).hpz_partition_size == 1));
  }
  CHECK(partitions == 2);
  CHECK(quantised == 2);
  CHECK(larger == 4);
}

}  // namespace headroom::cost
