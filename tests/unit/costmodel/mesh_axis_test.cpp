// Which axis of the device mesh the collectives of each framework serve, as step time by part shows
// it.

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/time/program_time.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torchtitan/plan.h"
#include "tests/support/titan_plan.h"

namespace headroom::cost {
namespace {

/// Four layers, H 256, eight heads of 64; with 16 experts where asked for.
ir::ModelSpec small_model(bool experts) {
  const std::string dims = R"("hidden_size": 256, "num_hidden_layers": 4,
      "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 2048,
      "intermediate_size": 512, "max_position_embeddings": 4096, "tie_word_embeddings": false)";
  const std::string text = experts ? R"({"model_type": "qwen3_moe", "moe_intermediate_size": 128,
      "num_experts": 16, "num_experts_per_tok": 4, "norm_topk_prob": true, )" +
                                         dims + "}"
                                   : R"({"model_type": "llama", )" + dims + "}";
  return ir::parse_hf_config(text, "small").value();
}

/// A second for what ranks exchange, nothing for all else: no computation hides any of it.
Seconds second_of_exchange(const ir::WorkShape& shape) {
  const auto* const collective = std::get_if<ir::CollectiveShape>(&shape);
  return Seconds{collective != nullptr && collective->group.ranks() > 1 ? 1.0 : 0.0};
}

/// Times by part of the last step, where only exchanges take time.
PartTimes parts_of(const ir::ParallelPlan& plan, bool experts = false) {
  const ir::ModelSpec model = small_model(experts);
  REQUIRE(ir::check_plan(model, plan));
  const ir::RankProgram program = ir::lower(model, plan, ir::Rank{0}, DeviceTraits{}).value();
  const PriceList prices{.time_of = second_of_exchange, .launch = Seconds{0}};
  return price_program(program, plan, prices).step.parts;
}

/// Whether the exposed traffic is of these axes and no others.
void check_traffic(const PartTimes& parts, std::vector<StepPart> expected) {
  for (const StepPart part : {StepPart::kTensor, StepPart::kContext, StepPart::kExpert,
                              StepPart::kData, StepPart::kPipeline}) {
    CAPTURE(name_of(part));
    const bool wanted = std::find(expected.begin(), expected.end(), part) != expected.end();
    CHECK((parts.of(part) > Seconds{0}) == wanted);
  }
}

ir::ParallelPlan megatron_plan(const ir::Mesh& mesh, std::int64_t world,
                               const ir::MegatronPlan& megatron = {}) {
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = ir::Precision::kBf16Master;
  plan.optimizer.form = ir::OptimizerForm::kFused;
  plan.workload.sequence = 1024;
  plan.workload.accumulation = 4;
  plan.world = world;
  edit_megatron(plan) = megatron;
  plan.mesh = mesh;
  return plan;
}

}  // namespace

TEST_CASE("mesh axis: torchtitan's tensor, context, expert and pipeline traffic is not data's") {
  check_traffic(parts_of(test::titan_plan(4)), {StepPart::kData});
  check_traffic(parts_of(test::titan_plan(4, {}, {.tensor = 2})),
                {StepPart::kData, StepPart::kTensor});
  check_traffic(parts_of(test::titan_plan(4, {}, {.context = 2})),
                {StepPart::kData, StepPart::kContext});
  check_traffic(parts_of(test::titan_plan(4, {}, {.expert = 2}), true),
                {StepPart::kData, StepPart::kExpert});
  ir::ParallelPlan staged = test::titan_plan(4, {}, {.pipeline = 2});
  staged.workload.micro_batch = 4;
  check_traffic(parts_of(staged), {StepPart::kData, StepPart::kPipeline});
  ir::Mesh all;
  all.tensor = 2;
  all.context = 2;
  check_traffic(parts_of(test::titan_plan(8, {}, all)),
                {StepPart::kData, StepPart::kTensor, StepPart::kContext});
  all.context = 1;  // torchtitan's Qwen3 does not run with both.
  all.expert = 2;
  check_traffic(parts_of(test::titan_plan(8, {}, all), true),
                {StepPart::kData, StepPart::kTensor, StepPart::kExpert});
}

TEST_CASE("mesh axis: Megatron-Core's traffic is of the axes that its degrees open") {
  check_traffic(parts_of(megatron_plan({}, 2, {.distributed_optimizer = true})), {StepPart::kData});
  check_traffic(parts_of(megatron_plan({.tensor = 2}, 4, {.sequence_parallel = true})),
                {StepPart::kData, StepPart::kTensor});
  check_traffic(parts_of(megatron_plan({.context = 2}, 4)), {StepPart::kData, StepPart::kContext});
  check_traffic(parts_of(megatron_plan({.expert = 2}, 4), true),
                {StepPart::kData, StepPart::kExpert});
  check_traffic(parts_of(megatron_plan({.pipeline = 2}, 4)),
                {StepPart::kData, StepPart::kPipeline});
}

TEST_CASE("mesh axis: experts on as many ranks as a sequence is spread over are told apart") {
  // Both groups hold the same two ranks: attention's exchange is the context's, the tokens' the
  // experts'.
  const ir::MegatronPlan exchange{.context_exchange = ir::MegatronContext::kAllToAll};
  check_traffic(parts_of(megatron_plan({.context = 2, .expert = 2}, 4, exchange), true),
                {StepPart::kData, StepPart::kContext, StepPart::kExpert});
}

TEST_CASE("mesh axis: DeepSpeed, FSDP and DDP exchange for data parallelism alone") {
  ir::ParallelPlan plan;
  plan.workload.sequence = 1024;
  plan.world = 4;
  edit_ddp(plan) = {};
  check_traffic(parts_of(plan), {StepPart::kData});
  plan.own.reset<ir::DdpPlan>();
  plan.runtime = "deepspeed";
  plan.precision = ir::Precision::kBf16Master;
  for (const int stage : {1, 2, 3}) {
    edit_zero(plan).stage = stage;
    check_traffic(parts_of(plan), {StepPart::kData});
  }
  plan.own.reset<ir::ZeroPlan>();
  plan.runtime = "fsdp";
  plan.precision = ir::Precision::kFp32;
  edit_fsdp(plan) = {};
  check_traffic(parts_of(plan), {StepPart::kData});
}

}  // namespace headroom::cost
