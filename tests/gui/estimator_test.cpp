#include "gui/whatif/estimator.h"

#include <QFile>
#include <QTemporaryDir>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

constexpr const char* kCatalogue = HEADROOM_SOURCE_DIR "/configs";

constexpr const char* kTinyLlama = R"({"model_type": "llama", "vocab_size": 1000,
  "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 4096, "tie_word_embeddings": false})";

/// Parameters in bf16: embedding and head of V H, layers of 2 (A + K) D H, 3 H F and two norms, and
/// the last norm.
constexpr std::int64_t kTinyLlamaBytes =
    2 * (2 * 1000 * 64 + 2 * (2 * (64 + 32) * 64 + 3 * 64 * 128 + 2 * 64) + 64);

void write(const QString& path, const char* text) {
  QFile file(path);
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(text);
}

}  // namespace

TEST_CASE("make_estimator: answers a scenario of the catalogue") {
  const auto appraisal = make_estimator(kCatalogue)(default_scenario(), {});
  REQUIRE(appraisal);
  const cost::StepEstimate* const estimate = &appraisal->estimate;
  // 8,030,261,248 parameters in bf16, in 291 blocks that are rounded up to 512 bytes.
  const Bytes parameters =
      estimate->peak_by_role.at(static_cast<std::size_t>(ir::TensorRole::kParameter));
  CHECK(parameters >= Bytes{2 * 8'030'261'248});
  CHECK(parameters < Bytes{2 * 8'030'261'248 + 512 * 291});
  CHECK(estimate->device_total == Bytes{84'974'501'888});
}

TEST_CASE("make_estimator: reads a config.json anew for every question") {
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("config.json"));
  write(path, kTinyLlama);
  Scenario scenario = default_scenario();
  scenario.model = model_source(path.toStdString());
  const Estimator estimator = make_estimator(kCatalogue);
  const auto appraisal = estimator(scenario, {});
  REQUIRE(appraisal);
  const cost::StepEstimate* const estimate = &appraisal->estimate;
  const Bytes parameters =
      estimate->peak_by_role.at(static_cast<std::size_t>(ir::TensorRole::kParameter));
  // Blocks are rounded up to 512 bytes.
  CHECK(parameters >= Bytes{kTinyLlamaBytes});
  CHECK(parameters < Bytes{kTinyLlamaBytes + 512 * 30});

  write(path, "{}");
  const auto refused = estimator(scenario, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().file == path.toStdString());
}

TEST_CASE("make_estimator: names the model, GPU or file that is wrong") {
  const Estimator estimator = make_estimator(kCatalogue);
  Scenario model = default_scenario();
  model.model.text = "llama-3.1-8c";
  REQUIRE_FALSE(estimator(model, {}));
  CHECK(estimator(model, {}).error().fix.find("llama-3.1-8b") != std::string::npos);
  Scenario gpu = default_scenario();
  gpu.gpu = "h1000";
  REQUIRE_FALSE(estimator(gpu, {}));
  CHECK(estimator(gpu, {}).error().got == "h1000");
  Scenario file = default_scenario();
  file.model = model_source("missing/model.gguf");
  REQUIRE_FALSE(estimator(file, {}));
  CHECK(estimator(file, {}).error().file == "missing/model.gguf");
}

TEST_CASE("make_estimator: does not replay what nobody waits for") {
  std::stop_source stop;
  stop.request_stop();
  CHECK_FALSE(make_estimator(kCatalogue)(default_scenario(), stop.get_token()));
}

}  // namespace headroom::gui
