#include "runtimes/megatron/search/block_times.h"
#include "runtimes/megatron/plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/program_time.h"
#include "model_ir/spec/model_catalogue.h"
#include "planner/space/search_space.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/search/block_floor.h"
#include "runtimes/megatron/search/pipeline_times.h"
#include "runtimes/megatron/search/plan_key.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"

namespace headroom::plan {
namespace {

using test::kConfigs;

/// Megatron plans of one model on one kind of node.
struct Plans {
  ir::ModelSpec model;
  cost::DeviceSpec device;
  cost::Machine machine;
  std::vector<Cell> cells;
};

/// `axes`: what is said besides, as options say it.
Plans plans_of(const std::string& model, const std::string& gpu, std::int64_t gpus,
               const std::vector<std::pair<Axis, std::string>>& axes = {}) {
  cost::DeviceSpec device = cost::load_device(kConfigs, gpu).value();
  cost::Machine machine = cost::load_machine(kConfigs, device).value();
  Plans plans{.model = ir::load_model(kConfigs + "/models", model).value(),
              .device = std::move(device),
              .machine = std::move(machine),
              .cells = {}};
  SpaceQuestion question{.model = plans.model,
                         .base = {},
                         .global_batch = 64,
                         .constraints = {},
                         .device = plans.device.traits};
  question.base.precision = ir::Precision::kBf16Master;
  question.base.workload.sequence = 2048;
  question.base.world = gpus;
  question.base.allocator.expandable_segments = true;
  question.constraints.of(Axis::kRuntime) = {3};
  question.constraints.of(Axis::kMicroBatch) = {1, 4};
  question.constraints.of(Axis::kPipeline) = {1, 2};
  question.constraints.of(Axis::kContext) = {1, 2, 8};
  for (const auto& [axis, values] : axes) {
    question.constraints.of(axis) = parse_axis(axis, values).value();
  }
  plans.cells = cells_of(question);
  REQUIRE(!plans.cells.empty());
  return plans;
}

/// Tensor-parallel plans with sequence parallelism, with and without --tp-comm-overlap.
std::vector<std::pair<Axis, std::string>> cut_ranks(const std::string& overlap,
                                                    const std::string& precision = "bf16") {
  return {{Axis::kTensor, "2,4,8"},
          {Axis::kSequenceParallel, "yes"},
          {Axis::kPrecision, precision},
          {megatron_axes::kTpCommOverlap, overlap}};
}

}  // namespace

TEST_CASE("block times: no piece of a plan is quicker than its floor") {
  test::Random random = test::seeded_random(611);
  CAPTURE(random.seed());
  for (const Plans& plans :
       {plans_of("llama-3.1-8b", "h100-80gb", 64), plans_of("gpt3-175b", "a100-80gb", 64),
        plans_of("deepseek-v3", "h800-80gb", 128), plans_of("mixtral-8x7b", "b200", 32),
        plans_of("llama-3.1-8b", "h100-80gb", 64,
                 {{Axis::kPrecision, "fp8-delayed,fp8-tensorwise,fp8-blockwise"},
                  {megatron_axes::kFp8Parameters, "any"}}),
        plans_of("llama-3.1-8b", "h100-80gb", 64,
                 {{Axis::kContext, "2,4,8"}, {megatron_axes::kContextExchange, "a2a"}}),
        plans_of("deepseek-v3", "h800-80gb", 128,
                 {{Axis::kContext, "2,8"}, {megatron_axes::kContextExchange, "any"}}),
        plans_of("llama-3.1-8b", "h100-80gb", 64, {{megatron_axes::kOffloadModules, "any"}}),
        plans_of("deepseek-v3", "h800-80gb", 128, {{megatron_axes::kOffloadModules, "any"}}),
        plans_of("deepseek-v3", "b200", 128, {{Axis::kPrecision, "fp8-mxfp8"}}),
        plans_of("gpt3-175b", "h100-80gb", 512, {{Axis::kPrecision, "fp8-delayed,fp8-tensorwise"}}),
        plans_of("llama-3.1-8b", "h100-80gb", 64, cut_ranks("no")),
        plans_of("llama-3.1-8b", "h100-80gb", 64, cut_ranks("yes")),
        plans_of("llama-3.1-8b", "b200", 64, cut_ranks("any", "fp8-delayed,fp8-mxfp8")),
        plans_of("deepseek-v3", "h800-80gb", 128, cut_ranks("yes", "bf16,fp8-blockwise")),
        plans_of("deepseek-v3", "h800-80gb", 128, {{megatron_axes::kSharedOverlap, "any"}}),
        plans_of("mixtral-8x7b", "b200", 32, {{megatron_axes::kExchangeOverlap, "yes"}}),
        plans_of("qwen3-30b-a3b", "h100-80gb", 32, {{megatron_axes::kExchangeOverlap, "yes"}}),
        plans_of("deepseek-v3", "h800-80gb", 128, {{megatron_axes::kExchangeOverlap, "yes"}}),
        // Fewer routed tokens than experts.
        plans_of("deepseek-v3", "h800-80gb", 128,
                 {{Axis::kTensor, "128"}, {Axis::kExpert, "1,2"}})}) {
    for (int round = 0; round < 12; ++round) {
      const auto last = static_cast<std::int64_t>(plans.cells.size()) - 1;
      const ir::ParallelPlan& plan =
          plans.cells[static_cast<std::size_t>(random.between(0, last))].plan;
      const BlockTimes floor = block_floor(plans.model, plan, plans.machine);
      const BlockTimes times = block_times(plans.model, plan, plans.machine, plans.device).value();
      CAPTURE(plans.model.name);
      CAPTURE(plan.mesh.tensor);
      CAPTURE(megatron_of(plan).sequence_parallel);
      CAPTURE(megatron_of(plan).tp_comm_overlap);
      CAPTURE(megatron_of(plan).shared_expert_overlap);
      CAPTURE(plan.mesh.context);
      CAPTURE(static_cast<int>(megatron_of(plan).context_exchange));
      CAPTURE(value_with(megatron_of(plan).offload_modules));
      CAPTURE(plan.mesh.expert);
      CAPTURE(plan.mesh.expert_tensor);
      CAPTURE(static_cast<int>(megatron_of(plan).fp8));
      CHECK(floor.dense.forward <= times.dense.forward);
      CHECK(floor.dense.backward <= times.dense.backward);
      const Seconds floor_of_both = floor.sparse.forward + floor.sparse.backward;
      const Seconds both = times.sparse.forward + times.sparse.backward;
      CHECK(floor_of_both + times.sparse.saved <= both);
      if (!megatron_of(plan).overlap_expert_exchange) {
        CHECK(floor.sparse.forward <= times.sparse.forward);
        CHECK(floor.sparse.backward <= times.sparse.backward);
      }
      CHECK(floor.head[2] <= times.head[2]);
      CHECK(floor.transfer == times.transfer);
    }
  }
}

TEST_CASE("block times: plans with equal keys have equal pieces") {
  test::Random random = test::seeded_random(612);
  CAPTURE(random.seed());
  const Plans plans =
      plans_of("llama-3.1-8b", "h100-80gb", 8,
               {{Axis::kGpus, "1,2,8"},
                {Axis::kTensor, "1"},
                {Axis::kPrecision, "any"},
                {megatron_axes::kFp8Parameters, "any"},
                {megatron_axes::kContextExchange, "any"},
                {megatron_axes::kOffloadModules, "none,core_attn,qkv_linear+core_attn"}});
  std::unordered_map<PlanKey, BlockTimes, PlanKeyHash> known;
  int met = 0;
  for (int round = 0; round < 150; ++round) {
    const auto last = static_cast<std::int64_t>(plans.cells.size()) - 1;
    const ir::ParallelPlan& plan =
        plans.cells[static_cast<std::size_t>(random.between(0, last))].plan;
    const BlockTimes times = block_times(plans.model, plan, plans.machine, plans.device).value();
    const auto [one, added] = known.try_emplace(pieces_key(plan), times);
    met += added ? 0 : 1;
    CAPTURE(plan.world);
    CHECK(one->second.dense.forward == times.dense.forward);
    CHECK(one->second.dense.backward == times.dense.backward);
    CHECK(one->second.dense.mlp == times.dense.mlp);
    CHECK(one->second.head == times.head);
  }
  CHECK(met > 10);
}

TEST_CASE("block times: pieces add up to the passes of a whole program") {
  const char* const attention = "qkv_linear+core_attn+attn_proj";
  // `link`: share of the host link's rate.
  for (const auto& [name, tensor, context, recompute, offloaded, link] :
       {std::tuple("llama-3.1-8b", 1, 1, ir::MegatronRecompute::kNone, "none", 1.0),
        std::tuple("llama-3.1-8b", 2, 2, ir::MegatronRecompute::kSelective, "none", 1.0),
        std::tuple("gpt3-6.7b", 4, 1, ir::MegatronRecompute::kFullUniform, "none", 1.0),
        std::tuple("gpt3-6.7b", 4, 1, ir::MegatronRecompute::kSelective, "none", 1.0),
        std::tuple("llama-3.1-8b", 1, 1, ir::MegatronRecompute::kNone, "core_attn", 1.0),
        std::tuple("llama-3.1-8b", 2, 2, ir::MegatronRecompute::kSelective, attention, 1.0),
        std::tuple("llama-3.1-8b", 1, 1, ir::MegatronRecompute::kNone, attention, 0.2),
        std::tuple("gpt3-6.7b", 4, 1, ir::MegatronRecompute::kNone, attention, 0.2),
        std::tuple("gpt3-6.7b", 4, 1, ir::MegatronRecompute::kSelective, attention, 0.1)}) {
    Plans plans = plans_of(name, "h100-80gb", 8);
    cost::HostPerformance& host = plans.machine.performance.host;
    host.to_host = link * host.to_host;
    host.to_device = link * host.to_device;
    plans.model.layers.resize(8);
    ir::ParallelPlan plan = plans.cells.front().plan;
    plan.world = tensor * context;
    plan.workload.micro_batch = 4;
    plan.workload.accumulation = 3;
    ir::MegatronPlan& megatron = edit_megatron(plan);
    megatron = {};
    plan.mesh.tensor = tensor;
    plan.mesh.context = context;
    megatron.sequence_parallel = tensor > 1;
    megatron.recompute = recompute;
    megatron.mask_in_dataloader = false;
    megatron.cross_entropy = ir::MegatronCrossEntropy::kTransformerEngine;
    megatron.offload_modules =
        offload_modules_of(parse_axis(megatron_axes::kOffloadModules, offloaded).value().front());
    if (recompute == ir::MegatronRecompute::kSelective) {
      megatron.recompute_modules = {.core_attention = true, .mlp = true};
    }
    const BlockTimes blocks = block_times(plans.model, plan, plans.machine, plans.device).value();
    const PipelineParts parts = pipeline_parts(plans.model, plan, blocks);
    const ir::RankProgram program = cost::lower_replayed(plans.model, plan, plans.device).value();
    const cost::ProgramTime priced =
        cost::price_program(program, plan, cost::prices_on(plans.machine, plan));
    const double replayed =
        (priced.chunks.at(0).forward.time() + priced.chunks.at(0).backward.time()).value();
    CAPTURE(name);
    CAPTURE(offloaded);
    CAPTURE(parts.copies.value());
    CAPTURE(tensor);
    CAPTURE(static_cast<int>(recompute));
    CHECK(std::abs(parts.micro_batch.value() / replayed - 1) < 0.02);
    CHECK((parts.copies.value() > 0) == (link < 1));

    CHECK((parts.recomputation.value() > 0) == (recompute != ir::MegatronRecompute::kNone));
  }
}

TEST_CASE("block times: weights are cast to 8 bits in a step's first micro-batch alone") {
  for (const auto& [name, tensor, recipe] :
       {std::tuple("gpt3-6.7b", 4, ir::MegatronFp8::kDelayed),
        std::tuple("llama-3.1-8b", 2, ir::MegatronFp8::kTensorwise),
        std::tuple("llama-3.1-8b", 1, ir::MegatronFp8::kBlockwise)}) {
    Plans plans = plans_of(name, "h100-80gb", 8);
    plans.model.layers.resize(8);
    ir::ParallelPlan plan = plans.cells.front().plan;
    plan.world = tensor;
    plan.mesh.tensor = tensor;
    plan.workload.micro_batch = 4;
    plan.workload.accumulation = 3;
    ir::MegatronPlan& megatron = edit_megatron(plan);
    megatron = {};
    megatron.fp8 = recipe;
    megatron.sequence_parallel = tensor > 1;
    const BlockTimes blocks = block_times(plans.model, plan, plans.machine, plans.device).value();
    const PipelineParts parts = pipeline_parts(plans.model, plan, blocks);
    const ir::RankProgram program = cost::lower_replayed(plans.model, plan, plans.device).value();
    const cost::ProgramTime::Chunk chunk =
        cost::price_program(program, plan, cost::prices_on(plans.machine, plan)).chunks.at(0);
    const double replayed = (chunk.forward.time() + chunk.backward.time()).value();
    CAPTURE(name);
    CHECK(std::abs(parts.micro_batch.value() / replayed - 1) < 0.02);
    const double once = (parts.forward_backward - 3.0 * parts.micro_batch).value();
    CHECK(once > 0.01 * replayed);
  }
}

}  // namespace headroom::plan
