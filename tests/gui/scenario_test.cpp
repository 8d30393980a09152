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

TEST_CASE("moved_to: DeepSpeed has a ZeRO plan and a master copy, transformers neither") {
  Scenario scenario = default_scenario();
  scenario.plan.precision = ir::Precision::kAutocastFp16;
  scenario.plan.world = 8;
  scenario = moved_to(scenario, "deepspeed");
  REQUIRE(has_zero(scenario.plan));
  CHECK(zero_of(scenario.plan).stage == 2);
  CHECK(scenario.plan.precision == ir::Precision::kFp16Master);
  CHECK_FALSE(has_ddp(scenario.plan));

  scenario = moved_to(scenario, "transformers");
  CHECK_FALSE(has_zero(scenario.plan));
  CHECK(scenario.plan.precision == ir::Precision::kFp16);
  CHECK(has_ddp(scenario.plan));
}

TEST_CASE("moved_to: Megatron takes checkpointing as its own") {
  Scenario scenario = default_scenario();
  scenario.plan.world = 8;
  scenario.plan.recompute = ir::Recompute::kFull;
  scenario.plan.attention = ir::AttentionKind::kEager;
  scenario = moved_to(scenario, "megatron");
  REQUIRE(has_megatron(scenario.plan));
  CHECK(megatron_of(scenario.plan).recompute == ir::MegatronRecompute::kFullUniform);
  CHECK(scenario.plan.recompute == ir::Recompute::kNone);
  CHECK(scenario.plan.attention == ir::AttentionKind::kSdpa);
  CHECK(scenario.plan.precision == ir::Precision::kBf16Master);
  CHECK_FALSE(has_megatron(moved_to(scenario, "transformers").plan));
}

TEST_CASE("settled: what the framework refuses stays, so that the window can say so") {
  Scenario scenario = moved_to(default_scenario(), "megatron");
  scenario.plan.world = 2;
  scenario.plan.mesh.tensor = 4;
  CHECK(settled(scenario) == scenario);
  scenario.plan.attention = ir::AttentionKind::kEager;
  CHECK(settled(scenario) == scenario);
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
  Scenario scenario = moved_to(default_scenario(), "deepspeed");
  scenario.plan.precision = ir::Precision::kFp32;
  edit_zero(scenario.plan) = {};
  edit_zero(scenario.plan).stage = 3;
  scenario.plan.lora.emplace();
  scenario.plan.quant.emplace();
  CHECK(settled(scenario) == scenario);
  scenario.plan.lora.reset();
  CHECK_FALSE(settled(scenario).plan.quant);
}

TEST_CASE("property: moved twice is moved once, for every runtime, precision and world") {
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (int precision = 0; precision <= static_cast<int>(ir::Precision::kFp16Master);
         ++precision) {
      for (const std::int64_t world : {1, 8}) {
        Scenario scenario = default_scenario();
        scenario.plan.precision = static_cast<ir::Precision>(precision);
        scenario.plan.world = world;
        const Scenario once = moved_to(scenario, std::string(runtime->name()));
        CHECK(settled(once) == once);
        CHECK(moved_to(once, std::string(runtime->name())) == once);
        const auto offered = runtime->precisions();
        CHECK(std::find(offered.begin(), offered.end(), once.plan.precision) != offered.end());
      }
    }
  }
}

TEST_CASE("moved_to: from any framework to any other the plan can be run") {
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
        scenario = moved_to(scenario, std::string(from->name()));
        check_runs(moved_to(scenario, std::string(to->name())));
      }
    }
  }
}

TEST_CASE("default_scenario: needs no settling") {
  CHECK(settled(default_scenario()) == default_scenario());
}

}  // namespace headroom::gui
