#include "gui/whatif/scenario.h"

#include <array>

#include <QDir>
#include <QTemporaryDir>

#include <doctest/doctest.h>

namespace headroom::gui {

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
  REQUIRE(scenario.plan.zero);
  CHECK(scenario.plan.zero->stage == 2);
  CHECK(scenario.plan.precision == ir::Precision::kFp16Master);
  CHECK_FALSE(scenario.plan.ddp);

  scenario.plan.runtime = "transformers";
  scenario = settled(scenario);
  CHECK_FALSE(scenario.plan.zero);
  CHECK(scenario.plan.precision == ir::Precision::kFp16);
  CHECK(scenario.plan.ddp);
}

TEST_CASE("settled: Megatron takes checkpointing as its own and degrees that divide the GPUs") {
  Scenario scenario = default_scenario();
  scenario.plan.world = 8;
  scenario.plan.recompute = ir::Recompute::kFull;
  scenario.plan.attention = ir::AttentionKind::kEager;
  scenario.plan.runtime = "megatron";
  scenario.plan.megatron = ir::MegatronPlan{.tensor = 4};
  scenario = settled(scenario);
  REQUIRE(scenario.plan.megatron);
  CHECK(scenario.plan.megatron->tensor == 4);
  CHECK(scenario.plan.megatron->sequence_parallel);
  CHECK(scenario.plan.megatron->recompute == ir::MegatronRecompute::kFullUniform);
  CHECK(scenario.plan.recompute == ir::Recompute::kNone);
  CHECK(scenario.plan.attention == ir::AttentionKind::kSdpa);
  CHECK(scenario.plan.precision == ir::Precision::kBf16Master);
  scenario.plan.world = 2;
  CHECK(settled(scenario).plan.megatron->tensor == 1);
  scenario.plan.runtime = "transformers";
  CHECK_FALSE(settled(scenario).plan.megatron);
}

TEST_CASE("settled: DDP comes with the second GPU and goes with it") {
  Scenario scenario = default_scenario();
  CHECK_FALSE(scenario.plan.ddp);
  scenario.plan.world = 2;
  CHECK(settled(scenario).plan.ddp);
  scenario = settled(scenario);
  scenario.plan.world = 1;
  CHECK_FALSE(settled(scenario).plan.ddp);
}

TEST_CASE("settled: keeps choices that go together as they are") {
  Scenario scenario = default_scenario();
  scenario.plan.runtime = "deepspeed";
  scenario.plan.precision = ir::Precision::kFp32;
  scenario.plan.zero.emplace();
  scenario.plan.zero->stage = 3;
  scenario.plan.lora.emplace();
  scenario.plan.quant.emplace();
  CHECK(settled(scenario) == scenario);
  scenario.plan.lora.reset();
  CHECK_FALSE(settled(scenario).plan.quant);
}

TEST_CASE("property: settled twice is settled once, for every runtime, precision and world") {
  constexpr std::array<std::string_view, 4> kRuntimes = {"transformers", "deepspeed", "fsdp",
                                                         "megatron"};
  for (const std::string_view runtime : kRuntimes) {
    for (int precision = 0; precision <= static_cast<int>(ir::Precision::kFp16Master);
         ++precision) {
      for (const std::int64_t world : {1, 8}) {
        Scenario scenario = default_scenario();
        scenario.plan.runtime = runtime;
        scenario.plan.precision = static_cast<ir::Precision>(precision);
        scenario.plan.world = world;
        const Scenario once = settled(scenario);
        CHECK(settled(once) == once);
      }
    }
  }
}

TEST_CASE("default_scenario: needs no settling") {
  CHECK(settled(default_scenario()) == default_scenario());
}

}  // namespace headroom::gui
