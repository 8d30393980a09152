#include "gui/whatif/scenario.h"

#include <algorithm>

#include <QDir>
#include <QTemporaryDir>

#include <doctest/doctest.h>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "runtimes/torch/ddp_plan.h"
#include "tests/support/small_llama.h"

namespace headroom::gui {
namespace {

/// The framework accepts the plan for a small model and lowers it.
void check_runs(const Scenario& scenario) {
  DeviceTraits device;
  device.compute_major = 9;
  const ir::ModelSpec model = headroom::test::small_llama();
  const ir::ParallelPlan& plan = scenario.plan;
  CHECK(ir::check_plan(model, plan));
  const Result<ir::RankProgram> program = ir::lower(model, plan, ir::Rank{0}, device);
  const std::string refusal = program ? "" : to_text(program.error());
  CHECK(refusal.empty());
}

}  // namespace

TEST_CASE("model_source: tells paths from names as the command line does") {
  const QTemporaryDir folder;
  const std::string path = folder.path().toStdString();
  using Kind = ModelSource::Kind;
  CHECK(model_source("llama-3.1-8b") == ModelSource{Kind::kCatalogue, "llama-3.1-8b"});
  CHECK(model_source("meta-llama/Llama-3.1-8B").kind == Kind::kCatalogue);
  CHECK(model_source("missing/config.json") == ModelSource{Kind::kFile, "missing/config.json"});
  CHECK(model_source("model.Q4_K_M.gguf").kind == Kind::kFile);
  CHECK(model_source("./missing").kind == Kind::kFile);
  CHECK(model_source(path) == ModelSource{Kind::kFile, path + "/config.json"});
}

TEST_CASE("model_source: a folder in the way does not hide a name of the catalogue") {
  const QTemporaryDir folder;
  const QString before = QDir::currentPath();
  REQUIRE(QDir(folder.path()).mkpath(QStringLiteral("meta-llama/mine")));
  REQUIRE(QDir(folder.path()).mkpath(QStringLiteral("gpt2")));
  REQUIRE(QDir::setCurrent(folder.path()));
  CHECK(model_source("gpt2").kind == ModelSource::Kind::kCatalogue);
  CHECK(model_source("meta-llama/mine").kind == ModelSource::Kind::kFile);
  QDir::setCurrent(before);
}

TEST_CASE("settled: DeepSpeed has a ZeRO plan and a master copy, transformers neither") {
  Scenario scenario = default_scenario();
  scenario.plan.runtime = "deepspeed";
  scenario.plan.precision = ir::Precision::kAutocastFp16;
  scenario.plan.world = 8;
  scenario = settled(scenario);
  REQUIRE(has_zero(scenario.plan));
  CHECK(zero_of(scenario.plan).stage == 2);
  CHECK(scenario.plan.precision == ir::Precision::kFp16Master);
  CHECK_FALSE(has_ddp(scenario.plan));

  scenario.plan.runtime = "transformers";
  scenario = settled(scenario);
  CHECK_FALSE(has_zero(scenario.plan));
  CHECK(scenario.plan.precision == ir::Precision::kFp16);
  CHECK(has_ddp(scenario.plan));
}

TEST_CASE("settled: Megatron takes checkpointing as its own and degrees that divide the GPUs") {
  Scenario scenario = default_scenario();
  scenario.plan.world = 8;
  scenario.plan.recompute = ir::Recompute::kFull;
  scenario.plan.attention = ir::AttentionKind::kEager;
  scenario.plan.runtime = "megatron";
  edit_megatron(scenario.plan) = ir::MegatronPlan{};
  scenario.plan.mesh = {.tensor = 4};
  scenario = settled(scenario);
  REQUIRE(has_megatron(scenario.plan));
  CHECK(scenario.plan.mesh.tensor == 4);
  CHECK(megatron_of(scenario.plan).sequence_parallel);
  CHECK(megatron_of(scenario.plan).recompute == ir::MegatronRecompute::kFullUniform);
  CHECK(scenario.plan.recompute == ir::Recompute::kNone);
  CHECK(scenario.plan.attention == ir::AttentionKind::kSdpa);
  CHECK(scenario.plan.precision == ir::Precision::kBf16Master);
  scenario.plan.world = 2;
  CHECK(settled(scenario).plan.mesh.tensor == 1);
  scenario.plan.runtime = "transformers";
  CHECK_FALSE(has_megatron(settled(scenario).plan));
}

TEST_CASE("settled: DDP comes with the second GPU and goes with it") {
  Scenario scenario = default_scenario();
  CHECK_FALSE(has_ddp(scenario.plan));
  scenario.plan.world = 2;
  CHECK(has_ddp(settled(scenario).plan));
  scenario = settled(scenario);
  scenario.plan.world = 1;
  CHECK_FALSE(has_ddp(settled(scenario).plan));
}

TEST_CASE("settled: keeps choices that go together as they are") {
  Scenario scenario = default_scenario();
  scenario.plan.runtime = "deepspeed";
  scenario.plan.precision = ir::Precision::kFp32;
  edit_zero(scenario.plan) = {};
  edit_zero(scenario.plan).stage = 3;
  scenario.plan.lora.emplace();
  scenario.plan.quant.emplace();
  CHECK(settled(scenario) == scenario);
  scenario.plan.lora.reset();
  CHECK_FALSE(settled(scenario).plan.quant);
}

TEST_CASE("property: settled twice is settled once, for every runtime, precision and world") {
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (int precision = 0; precision <= static_cast<int>(ir::Precision::kFp16Master);
         ++precision) {
      for (const std::int64_t world : {1, 8}) {
        Scenario scenario = default_scenario();
        scenario.plan.runtime = runtime->name();
        scenario.plan.precision = static_cast<ir::Precision>(precision);
        scenario.plan.world = world;
        const Scenario once = settled(scenario);
        CHECK(settled(once) == once);
        const auto offered = runtime->precisions();
        CHECK(std::find(offered.begin(), offered.end(), once.plan.precision) != offered.end());
      }
    }
  }
}

TEST_CASE("settled: from any framework to any other the plan can be run") {
  for (const ir::Runtime* const from : ir::runtimes()) {
    for (const ir::Runtime* const to : ir::runtimes()) {
      for (const std::int64_t world : {1, 8}) {
        CAPTURE(from->name());
        CAPTURE(to->name());
        CAPTURE(world);
        Scenario scenario = default_scenario();
        scenario.plan.world = world;
        scenario.plan.workload.sequence = 64;
        scenario.plan.workload.steps = 1;
        scenario.plan.recompute = ir::Recompute::kFullReentrant;
        scenario.plan.runtime = from->name();
        scenario = settled(scenario);
        scenario.plan.runtime = to->name();
        check_runs(settled(scenario));
      }
    }
  }
}

TEST_CASE("settled: every control of a framework can be turned") {
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (const ir::PlanControl& control : runtime->controls()) {
      CAPTURE(runtime->name());
      CAPTURE(control.label);
      Scenario scenario = default_scenario();
      scenario.plan.world = 8;
      scenario.plan.workload.micro_batch =
          2;  // A pipeline wants as many sequences as it has stages.
      scenario.plan.workload.accumulation = 2;
      scenario.plan.workload.sequence = 64;
      scenario.plan.workload.steps = 1;
      scenario.plan.runtime = runtime->name();
      scenario = settled(scenario);
      if (control.label == ir::kExpertParallelLabel) {
        continue;  // The model has no experts.
      }
      control.set(scenario.plan, 2);
      scenario = settled(scenario);
      CHECK(control.get(scenario.plan) == 2);
      check_runs(scenario);
    }
  }
}

TEST_CASE("settled: degrees that no longer divide the GPUs go back to one") {
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    Scenario scenario = default_scenario();
    scenario.plan.runtime = runtime->name();
    scenario.plan.world = 8;
    scenario = settled(scenario);
    for (const ir::PlanControl& control : runtime->controls()) {
      const bool divides =
          control.label == ir::kTensorParallelLabel || control.label == ir::kPipelineStagesLabel ||
          control.label == ir::kContextParallelLabel || control.label == ir::kReplicasLabel;
      if (!divides) {
        continue;
      }
      CAPTURE(runtime->name());
      CAPTURE(control.label);
      Scenario degree = scenario;
      control.set(degree.plan, 4);
      degree = settled(degree);
      CHECK(control.get(degree.plan) == 4);
      degree.plan.world = 6;
      CHECK(control.get(settled(degree).plan) == 1);
    }
  }
}

TEST_CASE("default_scenario: needs no settling") {
  CHECK(settled(default_scenario()) == default_scenario());
}

}  // namespace headroom::gui
