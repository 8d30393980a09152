#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/search/titan_choices.h"

#include <algorithm>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/machine.h"
#include "model_ir/spec/hf_config.h"
#include "planner/space/all_axes.h"
#include "runtimes/deepspeed/search/search.h"
#include "runtimes/torchtitan/search/axes.h"
#include "tests/support/configs.h"

namespace headroom::plan {
namespace {

ir::ModelSpec llama(std::int64_t layers) {
  return ir::parse_hf_config(R"({"model_type": "llama", "hidden_size": 256,
      "intermediate_size": 512, "num_hidden_layers": )" +
                                 std::to_string(layers) + R"(, "num_attention_heads": 8,
      "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 4096})",
                             "small")
      .value();
}

SpaceQuestion question_of(const ir::ModelSpec& model, std::int64_t gpus) {
  SpaceQuestion question{.model = model, .base = {}, .global_batch = 32, .constraints = {}};
  question.base.precision = ir::Precision::kBf16Master;
  question.base.workload.sequence = 512;
  question.constraints.of(Axis::kRuntime) = parse_axis(Axis::kRuntime, "torchtitan").value();
  question.constraints.of(Axis::kGpus) = {gpus};
  return question;
}

bool is_titan(const ir::ParallelPlan& plan) {
  return plan.runtime == "torchtitan";
}

std::vector<ir::ParallelPlan> plans_of(const SpaceQuestion& question) {
  std::vector<ir::ParallelPlan> plans;
  for (const Cell& cell : cells_of(question)) {
    const auto choices = choices_of(question, cell);
    CHECK(choices->size() == cell.choices);
    for (std::uint64_t index = 0; index < choices->size(); ++index) {
      plans.push_back(choices->plan_at(index));
    }
  }
  return plans;
}

}  // namespace

TEST_CASE("torchtitan's space: beside those of other frameworks, unless they are named") {
  const ir::ModelSpec model = llama(6);
  SpaceQuestion question = question_of(model, 4);
  CHECK_FALSE(cells_of(question).empty());
  question.constraints.of(Axis::kRuntime) = parse_axis(Axis::kRuntime, "any").value();
  CHECK(std::ranges::any_of(cells_of(question), is_titan, &Cell::plan));
  CHECK_FALSE(std::ranges::all_of(cells_of(question), is_titan, &Cell::plan));
  question.constraints.of(Axis::kRuntime) =
      parse_axis(Axis::kRuntime, "megatron,deepspeed").value();
  CHECK(std::ranges::none_of(cells_of(question), is_titan, &Cell::plan));
  question.constraints.of(Axis::kRuntime) =
      parse_axis(Axis::kRuntime, "megatron,torchtitan").value();
  CHECK(std::ranges::any_of(cells_of(question), is_titan, &Cell::plan));
  CHECK_FALSE(std::ranges::all_of(cells_of(question), is_titan, &Cell::plan));
}

TEST_CASE("torchtitan's space: the batch of a step is the same for all plans") {
  const ir::ModelSpec model = llama(6);
  for (const ir::ParallelPlan& plan : plans_of(question_of(model, 8))) {
    const ir::TitanPlan& titan = titan_of(plan);
    const std::int64_t data =
        plan.world / plan.mesh.tensor / plan.mesh.pipeline / plan.mesh.context;
    CHECK(plan.workload.micro_batch * plan.workload.accumulation * data == 32);
    CHECK(plan.workload.micro_batch / titan.pipeline_batch >= plan.mesh.pipeline);
  }
}

TEST_CASE("torchtitan's space: layers run again that tell ranks apart are all there") {
  // 16 layers, embedding and loss on four ranks: 4, 5, 4 and 3 layers.
  const ir::ModelSpec model = llama(16);
  SpaceQuestion question = question_of(model, 8);
  question.constraints.of(Axis::kPipeline) = {4};
  question.constraints.of(Axis::kSchedule) = parse_axis(Axis::kSchedule, "1f1b").value();
  std::set<std::int64_t> periods;
  for (const ir::ParallelPlan& plan : plans_of(question)) {
    if (plan.recompute == ir::Recompute::kFull) {
      periods.insert(plan.recompute_every);
    }
  }
  CHECK(periods == std::set<std::int64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("torchtitan's space: what is asked of an axis, plans have") {
  const ir::ModelSpec model = llama(6);
  const auto values_with = [&](Axis axis, const char* text, Axis seen) {
    SpaceQuestion question = question_of(model, 4);
    question.constraints.of(axis) = parse_axis(axis, text).value();
    std::set<std::string> values;
    for (const ir::ParallelPlan& plan : plans_of(question)) {
      values.insert(value_text(seen, value_of(plan, seen)));
    }
    return values;
  };
  using Texts = std::set<std::string>;
  CHECK(values_with(Axis::kSchedule, "zb-v", Axis::kPipeline) == Texts{"2"});
  CHECK(values_with(Axis::kSchedule, "zb-v", Axis::kRecompute) == Texts{"none"});
  CHECK(values_with(Axis::kSchedule, "zb-v", Axis::kCompiled) == Texts{"no"});
  CHECK(values_with(Axis::kCompiled, "yes", Axis::kTensor) == Texts{"1"});
  CHECK(values_with(Axis::kCompiled, "yes", Axis::kContext) == Texts{"1"});
  CHECK(values_with(Axis::kRecomputeEvery, "3", Axis::kRecompute) == Texts{"full"});
  CHECK(values_with(titan_axes::kPipelineRuns, "2", Axis::kPipeline) == Texts{"2"});
  CHECK(values_with(Axis::kMicroBatch, "2", Axis::kMicroBatch) == Texts{"2"});
  CHECK(values_with(Axis::kTensor, "2", Axis::kSequenceParallel) == Texts{"yes"});
  CHECK(values_with(deepspeed_axes::kZero, "3", Axis::kRuntime).empty());
  CHECK(values_with(Axis::kAccountLoss, "no", Axis::kAccountLoss) == Texts{"no"});
  CHECK(values_with(Axis::kGpus, "4", Axis::kAccountEmbedding) == Texts{"no", "yes"});
}

TEST_CASE("torchtitan's space: its optimizer is the fused one unless another is named") {
  const ir::ModelSpec model = llama(6);
  SpaceQuestion question = question_of(model, 2);
  const auto forms = [&] {
    std::set<ir::OptimizerForm> found;
    for (const ir::ParallelPlan& plan : plans_of(question)) {
      found.insert(plan.optimizer.form);
    }
    return found;
  };
  CHECK(forms() == std::set{ir::OptimizerForm::kFused});
  question.constraints.of(Axis::kOptimizer) = parse_axis(Axis::kOptimizer, "adamw").value();
  CHECK(forms() == std::set{ir::OptimizerForm::kForeach});
}

TEST_CASE("torchtitan's space: every k-th layer, once for each count of layers") {
  const ir::ModelSpec model = llama(12);
  SpaceQuestion question = question_of(model, 4);
  question.constraints.of(Axis::kPipeline) = {1};
  question.constraints.of(Axis::kRecompute) = {4};
  std::set<std::int64_t> counts;
  std::set<std::int64_t> periods;
  for (const ir::ParallelPlan& plan : plans_of(question)) {
    counts.insert(12 / plan.recompute_every);
    periods.insert(plan.recompute_every);
  }
  CHECK(counts == std::set<std::int64_t>{1, 2, 3, 4, 6, 12});
  CHECK(periods.size() == counts.size());
}

TEST_CASE("torchtitan's step: micro-batches that are not replayed take what others do") {
  const cost::DeviceSpec device = cost::load_device(test::kConfigs, "h100-80gb").value();
  const cost::Machine machine = cost::load_machine(test::kConfigs, device).value();
  const ir::ModelSpec model = llama(6);
  const auto seconds_of = [&](std::int64_t accumulation, std::int64_t pipeline) {
    ir::ParallelPlan plan;
    plan.runtime = "torchtitan";
    plan.precision = ir::Precision::kFp32;
    plan.world = 4;
    plan.workload.sequence = 512;
    plan.workload.micro_batch = 2 * pipeline;
    plan.workload.accumulation = accumulation;
    edit_titan(plan) = ir::TitanPlan{};
    plan.mesh.pipeline = pipeline;
    return cost::estimate(model, plan, device, Bytes{}, &machine).value().time->total.value();
  };
  for (const std::int64_t pipeline : {1, 2}) {
    const double each = (seconds_of(4, pipeline) - seconds_of(2, pipeline)) / 2;
    CHECK(seconds_of(16, pipeline) ==
          doctest::Approx(seconds_of(4, pipeline) + 12 * each).epsilon(0.02));
  }
}

}  // namespace headroom::plan
