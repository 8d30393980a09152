// One micro-batch forward while another runs backward (--overlap-moe-expert-parallel-comm).
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/plan/pipeline_schedule.h"
#include "model_ir/plan/work_range.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/megatron/launch.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/refusal.h"

namespace headroom::ir::megatron {
namespace {

using test::refused_by_check;

ModelSpec four_layers_of_experts() {
  return parse_hf_config(R"({"model_type": "mixtral", "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 1000, "num_local_experts": 8,
    "num_experts_per_tok": 2, "max_position_embeddings": 4096, "sliding_window": null})",
                         "experts")
      .value();
}

ParallelPlan joint_plan(std::int64_t micro_batches, std::int64_t stages = 1) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  plan.world = 4 * stages;
  plan.mesh.expert = 4;
  plan.mesh.expert_tensor = 1;
  plan.mesh.pipeline = stages;
  plan.workload.sequence = 1024;
  plan.workload.steps = 1;
  plan.workload.accumulation = micro_batches;
  MegatronPlan& megatron = edit_megatron(plan);
  megatron.distributed_optimizer = true;
  megatron.layers_per_chunk = stages > 1 ? 1 : 0;
  megatron.overlap_expert_exchange = true;
  return plan;
}

RankProgram lowered(const ParallelPlan& plan) {
  return lower(four_layers_of_experts(), plan, Rank{0}, DeviceTraits{}).value();
}

std::vector<RangeKind> passes_of(const RankProgram& program) {
  std::vector<RangeKind> kinds;
  for (const WorkRange& range : work_ranges(program)) {
    kinds.push_back(range.kind);
  }
  return kinds;
}

/// The FLOPs of all products and the bytes of all exchanges of tokens.
struct DoneWork {
  double flops = 0;
  std::int64_t exchanged = 0;
  friend bool operator==(const DoneWork&, const DoneWork&) = default;
};
DoneWork done_work(const RankProgram& program) {
  DoneWork work;
  for (const WorkItem& item : program.work.items) {
    if (item.kind != WorkItem::Kind::kRun) {
      continue;
    }
    const WorkShape& shape = program.work.shapes[item.index];
    if (const auto* const gemm = std::get_if<GemmShape>(&shape)) {
      work.flops += gemm->flops();
    } else if (const auto* const collective = std::get_if<CollectiveShape>(&shape)) {
      work.exchanged += collective->kind == CollectiveKind::kAllToAll ? collective->bytes : 0;
    }
  }
  return work;
}

/// The streams on which tokens are exchanged.
std::vector<StreamId> exchange_streams(const RankProgram& program) {
  std::vector<StreamId> streams;
  for (const WorkItem& item : program.work.items) {
    const auto* const shape = item.kind == WorkItem::Kind::kRun
                                  ? std::get_if<CollectiveShape>(&program.work.shapes[item.index])
                                  : nullptr;
    if (shape != nullptr && shape->kind == CollectiveKind::kAllToAll) {
      streams.push_back(item.stream);
    }
  }
  return streams;
}

std::int64_t live_at_end(const RankProgram& program) {
  std::vector<std::int64_t> bytes(program.blocks);
  for (const Event& event : program.events) {
    bytes.at(event.block) = event.kind == EventKind::kAllocate ? event.bytes : 0;
  }
  std::int64_t live = 0;
  for (const std::int64_t each : bytes) {
    live += each;
  }
  return live;
}

}  // namespace

TEST_CASE("megatron: all micro-batches but the first run forward beside a backward") {
  CHECK(passes_of(lowered(joint_plan(3))) ==
        std::vector{RangeKind::kForwardPass, RangeKind::kJointPass, RangeKind::kJointPass,
                    RangeKind::kBackwardPass});
  CHECK(passes_of(lowered(joint_plan(1))) ==
        std::vector{RangeKind::kForwardPass, RangeKind::kBackwardPass});
}

TEST_CASE("megatron: joint passes do the same work on another stream") {
  for (const bool delayed : {false, true}) {
    CAPTURE(delayed);
    ParallelPlan plan = joint_plan(3);
    edit_megatron(plan).delayed_weight_gradients = delayed;
    const RankProgram joint = lowered(plan);
    edit_megatron(plan).overlap_expert_exchange = false;
    edit_megatron(plan).delayed_weight_gradients = false;
    const RankProgram apart = lowered(plan);
    CHECK(done_work(joint) == done_work(apart));
    CHECK(done_work(joint).exchanged > 0);
    CHECK(exchange_streams(joint).size() == exchange_streams(apart).size());
    // The token dispatcher keeps the probabilities. Their graph keeps the detached input of the
    // layer and its gradient, [T, H] in bf16.
    constexpr std::int64_t kKept = 4 * 2 * (1024 * 256 * 2);
    CHECK(live_at_end(joint) - live_at_end(apart) == kKept);
    CHECK(
        std::ranges::all_of(exchange_streams(apart), [](StreamId stream) { return stream == 0; }));
    CHECK(
        std::ranges::none_of(exchange_streams(joint), [](StreamId stream) { return stream == 0; }));
  }
}

// With HybridEP, the norm and the activation are recomputed at the same result.
TEST_CASE("megatron: joint passes recompute norms and activations under every dispatcher") {
  for (const MegatronDispatcher dispatcher :
       {MegatronDispatcher::kAllToAll, MegatronDispatcher::kHybridEp}) {
    ParallelPlan plan = joint_plan(3);
    edit_megatron(plan).dispatcher = dispatcher;
    const RankProgram kept = lowered(plan);
    edit_megatron(plan).recompute = MegatronRecompute::kSelective;
    edit_megatron(plan).recompute_modules = {.norms = true, .moe_activation = true};
    const RankProgram again = lowered(plan);
    CHECK(done_work(again) == done_work(kept));  // Neither has products.
    const std::vector<RangeKind> ranges = passes_of(again);
    constexpr std::int64_t kEach = 4 * 3;  // Layers and micro-batches.
    CHECK(std::ranges::count(ranges, RangeKind::kRecomputation) == 2 * kEach);
  }
}

TEST_CASE("megatron: a pipeline of joint passes warms up with one forward more") {
  PipelineShape shape{
      .kind = PipelineKind::kInterleaved, .stages = 2, .micro_batches = 4, .chunks = 2};
  const std::int64_t usual = warmup_of_stage(shape, 0);
  shape.together = true;
  CHECK(warmup_of_stage(shape, 0) == usual + 1);
  const std::vector<PipelineAction> actions = actions_of_stage(shape, 0);
  const auto joint = std::ranges::count_if(actions, &PipelineAction::with_next);
  CHECK(joint == 8 - (usual + 1));
  const std::vector<RangeKind> passes = passes_of(lowered(joint_plan(4, 2)));
  CHECK(std::ranges::count(passes, RangeKind::kJointPass) == joint);
  CHECK(std::ranges::count(passes, RangeKind::kForwardPass) == usual + 1);
}

TEST_CASE("megatron: joint passes are refused without what they need") {
  const ModelSpec model = four_layers_of_experts();
  constexpr std::string_view kRefused = "overlap-moe-expert-parallel-comm";
  CHECK(refused_by_check(model, joint_plan(3)).empty());
  CHECK(refused_by_check(model, joint_plan(4, 2)).empty());
  const auto refused = [&](const auto& change) {
    ParallelPlan plan = joint_plan(3);
    change(plan);
    return refused_by_check(model, plan);
  };
  CHECK(refused([](ParallelPlan& plan) {
          plan.mesh.expert = 1;
          plan.world = 1;
        }) == kRefused);
  CHECK(refused([](ParallelPlan& plan) {
          edit_megatron(plan).recompute = MegatronRecompute::kFullUniform;
        }) == kRefused);
  CHECK(refused([](ParallelPlan& plan) {
          edit_megatron(plan).dispatcher = MegatronDispatcher::kAllGather;
        }) == kRefused);
  CHECK(refused([](ParallelPlan& plan) { edit_megatron(plan).mtp_layers = 1; }) == kRefused);
  ParallelPlan staged = joint_plan(4, 2);
  edit_megatron(staged).layers_per_chunk = 0;
  CHECK(refused_by_check(model, staged) == kRefused);
  CHECK(refused([](ParallelPlan& plan) {
          edit_megatron(plan).overlap_expert_exchange = false;
          edit_megatron(plan).delayed_weight_gradients = true;
        }) == "delay-wgrad-compute");
}

TEST_CASE("megatron: joint passes are launched with several connections, whatever the degrees") {
  using Words = std::vector<std::string>;
  const ModelSpec model = four_layers_of_experts();
  ParallelPlan plan = joint_plan(3);
  CHECK(megatron_launch(model, plan, {}).environment == Words{"CUDA_DEVICE_MAX_CONNECTIONS=32"});
  plan.mesh.tensor = 2;
  const Launch launch = megatron_launch(model, plan, {});
  CHECK(launch.environment == Words{"CUDA_DEVICE_MAX_CONNECTIONS=32"});
  CHECK(std::ranges::count(launch.command, "--overlap-moe-expert-parallel-comm") == 1);
  edit_megatron(plan).overlap_expert_exchange = false;
  CHECK(megatron_launch(model, plan, {}).environment == Words{"CUDA_DEVICE_MAX_CONNECTIONS=1"});
}

}  // namespace headroom::ir::megatron
