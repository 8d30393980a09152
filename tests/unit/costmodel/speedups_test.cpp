#include "costmodel/speedups.h"
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
}

TEST_CASE("speedups: changes keep the tokens of a step where they can") {
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{
      .tensor = 4, .pipeline = 4, .sequence_parallel = true, .distributed_optimizer = true};
  plan.world = 32;
  plan.micro_batch = 2;
  plan.accumulation = 16;
  const auto tokens = [](const ir::ParallelPlan& p) {
    return p.micro_batch * p.accumulation * p.world / megatron_of(p).tensor /
           megatron_of(p).pipeline;
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
  CHECK(changes == 8);                       // 3 for communication, 1, 3 for the bubble, 1.
  edit_megatron(plan).layers_per_chunk = 1;  // Eight chunks already: no smaller ones.
  CHECK(changes_against(plan, Bottleneck::kBubble, 32).size() == 2);
  edit_megatron(plan).offloaded_layers = 8;
  const std::vector<ir::ParallelPlan> fewer = changes_against(plan, Bottleneck::kOffload, 32);
  REQUIRE(fewer.size() == 3);
  CHECK(megatron_of(fewer[0]).offloaded_layers == 4);
  CHECK(megatron_of(fewer[1]).offloaded_layers == 0);
}

}  // namespace headroom::cost
