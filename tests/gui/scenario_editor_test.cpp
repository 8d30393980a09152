#include "gui/views/scenario_editor.h"

#include <QCheckBox>
#include <QComboBox>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QSlider>
#include <QSpinBox>

#include <doctest/doctest.h>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torchtitan/plan.h"
#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

struct Announced {
  Scenario after;
  Edit edit;
};

/// An editor whose announcements are kept and, as the window does, shown.
struct EditorScene {
  EditorScene()
      : models(test::fake_setup().models),
        gpus(test::fake_setup().gpus),
        editor({.models = &models, .gpus = &gpus}) {
    QObject::connect(&editor, &ScenarioEditor::edited, &editor,
                     [this](const Scenario& after, const Edit& edit) {
                       announced.push_back({settled(after), edit});
                       editor.setScenario(settled(after));
                     });
    editor.setScenario(default_scenario());
    editor.show();
  }
  template <typename T>
  [[nodiscard]] T* control(const char* accessible_name) {
    for (T* candidate : editor.findChildren<T*>()) {
      if (candidate->accessibleName() == QLatin1String(accessible_name)) {
        return candidate;
      }
    }
    FAIL("no control is called " << accessible_name);
    return nullptr;
  }
  [[nodiscard]] const Announced& last() const {
    REQUIRE_FALSE(announced.empty());
    return announced.back();
  }

  CatalogueModel models;
  CatalogueModel gpus;
  ScenarioEditor editor;
  std::vector<Announced> announced;
};

void choose(QComboBox* box, const QString& text) {
  const int row = box->findText(text);
  REQUIRE(row >= 0);
  box->setCurrentIndex(row);
}

}  // namespace

TEST_CASE("ScenarioEditor: showing a scenario announces nothing") {
  EditorScene scene;
  Scenario other = default_scenario();
  other.model = {.kind = ModelSource::Kind::kCatalogue, .text = "gpt2"};
  other.gpu = "h100-80gb";
  other.budget = Bytes{70 * kGiB};
  other.plan.runtime = "deepspeed";
  other.plan.workload.micro_batch = 5;
  other.plan.workload.sequence = 4096;
  other.plan.lora.emplace();
  other.plan.allocator.expandable_segments = true;
  scene.editor.setScenario(settled(other));
  CHECK(scene.announced.empty());
  CHECK(scene.control<QComboBox>("Model")->currentText() == QStringLiteral("gpt2"));
  CHECK(scene.control<QComboBox>("GPU")->currentText() == QStringLiteral("h100-80gb"));
  CHECK(scene.control<QLineEdit>("Budget")->text() == QStringLiteral("70GiB"));
  CHECK(scene.control<QComboBox>("Runtime")->currentText() == QStringLiteral("deepspeed"));
  CHECK(scene.control<QSpinBox>("Micro-batch")->value() == 5);
  CHECK(scene.control<QSpinBox>("Sequence length in tokens")->value() == 4096);
  CHECK(scene.control<QCheckBox>("Train LoRA adapters")->isChecked());
  CHECK(scene.control<QCheckBox>("Expandable segments")->isChecked());
}

TEST_CASE("ScenarioEditor: every choice reaches its field of the plan") {
  EditorScene scene;
  choose(scene.control<QComboBox>("Precision"), QStringLiteral("autocast-bf16"));
  CHECK(scene.last().after.plan.precision == ir::Precision::kAutocastBf16);
  CHECK(scene.last().edit.field == Field::kPrecision);
  choose(scene.control<QComboBox>("Optimizer"), QStringLiteral("sgd-momentum"));
  CHECK(scene.last().after.plan.optimizer.kind == ir::OptimizerKind::kSgd);
  CHECK(scene.last().after.plan.optimizer.momentum == doctest::Approx(0.9));
  choose(scene.control<QComboBox>("Attention"), QStringLiteral("flash"));
  CHECK(scene.last().after.plan.attention == ir::AttentionKind::kFlash);
  choose(scene.control<QComboBox>("Checkpointing"), QStringLiteral("full"));
  CHECK(scene.last().after.plan.recompute == ir::Recompute::kFull);
  CHECK(scene.announced.size() == 4);
}

TEST_CASE("ScenarioEditor: every number reaches its field of the plan") {
  EditorScene scene;
  scene.control<QSpinBox>("Number of GPUs")->setValue(8);
  CHECK(scene.last().after.plan.world == 8);
  scene.control<QSpinBox>("Micro-batch")->setValue(4);
  CHECK(scene.last().after.plan.workload.micro_batch == 4);
  scene.control<QSpinBox>("Sequence length in tokens")->setValue(3000);
  CHECK(scene.last().after.plan.workload.sequence == 3000);
  scene.control<QSpinBox>("Micro-batches per optimizer step")->setValue(16);
  CHECK(scene.last().after.plan.workload.accumulation == 16);
  choose(scene.control<QComboBox>("Checkpointing"), QStringLiteral("full"));
  scene.control<QSpinBox>("Checkpoint one layer of every")->setValue(2);
  CHECK(scene.last().after.plan.recompute_every == 2);
}

TEST_CASE("ScenarioEditor: ZeRO stages are for DeepSpeed, ranks and frozen weights for LoRA") {
  EditorScene scene;
  auto* const stage = scene.control<QComboBox>("ZeRO stage");
  auto* const rank = scene.control<QSpinBox>("LoRA rank");
  auto* const frozen = scene.control<QComboBox>("Frozen weights");
  CHECK_FALSE(stage->isEnabled());
  CHECK_FALSE(rank->isEnabled());
  CHECK_FALSE(frozen->isEnabled());
  CHECK_FALSE(scene.control<QSpinBox>("Checkpoint one layer of every")->isEnabled());

  choose(scene.control<QComboBox>("Runtime"), QStringLiteral("deepspeed"));
  CHECK(stage->isEnabled());
  CHECK(scene.control<QComboBox>("Precision")->currentText() == QStringLiteral("bf16-master"));
  stage->setCurrentIndex(3);
  REQUIRE(has_zero(scene.last().after.plan));
  CHECK(zero_of(scene.last().after.plan).stage == 3);

  scene.control<QCheckBox>("Train LoRA adapters")->click();
  CHECK(scene.last().after.plan.lora == ir::LoraPlan{});
  CHECK(rank->isEnabled());
  rank->setValue(64);
  CHECK(scene.last().after.plan.lora->rank == 64);
  frozen->setCurrentIndex(2);
  REQUIRE(scene.last().after.plan.quant);
  CHECK(scene.last().after.plan.quant->bits == 4);
  scene.control<QCheckBox>("Train LoRA adapters")->click();
  CHECK_FALSE(scene.last().after.plan.quant);
}

TEST_CASE("ScenarioEditor: a framework shows the controls that it has, and no others") {
  EditorScene scene;
  scene.control<QSpinBox>("Number of GPUs")->setValue(8);
  auto* const tensor = scene.control<QSpinBox>("Tensor parallel");
  auto* const replicas = scene.control<QSpinBox>("Replicas");
  CHECK_FALSE(tensor->isVisibleTo(&scene.editor));
  CHECK_FALSE(replicas->isVisibleTo(&scene.editor));

  choose(scene.control<QComboBox>("Runtime"), QStringLiteral("megatron"));
  CHECK(tensor->isVisibleTo(&scene.editor));
  CHECK_FALSE(replicas->isVisibleTo(&scene.editor));
  tensor->setValue(4);
  REQUIRE(has_megatron(scene.last().after.plan));
  CHECK(scene.last().after.plan.mesh.tensor == 4);
  CHECK(scene.last().edit.field == Field::kControl);
  CHECK(scene.last().edit.control == "Tensor parallel");
  choose(scene.control<QComboBox>("Checkpointing"), QStringLiteral("full"));
  CHECK(megatron_of(scene.last().after.plan).recompute == ir::MegatronRecompute::kFullUniform);
  choose(scene.control<QComboBox>("Checkpointing"), QStringLiteral("none"));
  CHECK(megatron_of(scene.last().after.plan).recompute == ir::MegatronRecompute::kNone);

  choose(scene.control<QComboBox>("Runtime"), QStringLiteral("torchtitan"));
  CHECK(tensor->isVisibleTo(&scene.editor));
  CHECK(tensor->value() == 1);
  CHECK(replicas->isVisibleTo(&scene.editor));
  tensor->setValue(2);
  REQUIRE(has_titan(scene.last().after.plan));
  CHECK(scene.last().after.plan.mesh.tensor == 2);
  replicas->setValue(2);
  REQUIRE(has_fsdp(scene.last().after.plan));
  CHECK(scene.last().after.plan.mesh.replicas == 2);

  choose(scene.control<QComboBox>("Runtime"), QStringLiteral("litgpt"));
  CHECK_FALSE(tensor->isVisibleTo(&scene.editor));
  CHECK(scene.control<QSpinBox>("Number of GPUs")->value() == 1);
}

TEST_CASE("ScenarioEditor: a model is picked from the list, typed, or a file") {
  EditorScene scene;
  auto* const model = scene.control<QComboBox>("Model");
  model->lineEdit()->selectAll();
  QTest::keyClicks(model->lineEdit(), QStringLiteral("gpt2"));
  QTest::keyClick(model->lineEdit(), Qt::Key_Return);
  CHECK(scene.announced.size() == 1);
  CHECK(scene.last().after.model == ModelSource{ModelSource::Kind::kCatalogue, "gpt2"});
  model->lineEdit()->setText(QStringLiteral("somewhere/config.json"));
  QTest::keyClick(model->lineEdit(), Qt::Key_Return);
  CHECK(scene.last().after.model.kind == ModelSource::Kind::kFile);
  CHECK(model->currentText() == QStringLiteral("somewhere/config.json"));
}

TEST_CASE("ScenarioEditor: asks for the file dialog") {
  EditorScene scene;
  const QSignalSpy wanted(&scene.editor, &ScenarioEditor::openRequested);
  scene.control<QPushButton>("Open a config.json")->click();
  CHECK(wanted.count() == 1);
}

TEST_CASE("ScenarioEditor: a budget is read with its unit, and nonsense is not passed on") {
  EditorScene scene;
  auto* const budget = scene.control<QLineEdit>("Budget");
  QTest::keyClicks(budget, QStringLiteral("70GiB"));
  QTest::keyClick(budget, Qt::Key_Return);
  CHECK(scene.last().after.budget == Bytes{70 * kGiB});
  const std::size_t before = scene.announced.size();
  budget->selectAll();
  QTest::keyClicks(budget, QStringLiteral("70 apples"));
  QTest::keyClick(budget, Qt::Key_Return);
  CHECK(scene.announced.size() == before);
  CHECK(budget->accessibleDescription().contains(QStringLiteral("Not understood")));
  CHECK(budget->palette().color(QPalette::Text) != scene.editor.palette().color(QPalette::Text));
  budget->clear();
  QTest::keyClick(budget, Qt::Key_Return);
  CHECK(scene.last().after.budget == Bytes{0});
}

TEST_CASE("ScenarioEditor: a held slider is one gesture, arrow keys are one each") {
  EditorScene scene;
  auto* const slider = scene.control<QSlider>("Micro-batch, slider");
  slider->setSliderDown(true);
  slider->setSliderPosition(4);
  slider->setSliderPosition(9);
  slider->setSliderDown(false);
  REQUIRE(scene.announced.size() == 2);
  CHECK(scene.announced[0].edit.gesture == scene.announced[1].edit.gesture);
  CHECK(scene.announced[1].after.plan.workload.micro_batch == 9);
  QTest::keyClick(slider, Qt::Key_Right);
  QTest::keyClick(slider, Qt::Key_Right);
  REQUIRE(scene.announced.size() == 4);
  CHECK(scene.announced[2].edit.gesture != scene.announced[1].edit.gesture);
  CHECK(scene.announced[3].edit.gesture != scene.announced[2].edit.gesture);
}

TEST_CASE("ScenarioEditor: lengths double with the box's arrows, from any number") {
  EditorScene scene;
  auto* const length = scene.control<QSpinBox>("Sequence length in tokens");
  length->setValue(3000);
  length->stepUp();
  CHECK(length->value() == 4096);
  length->stepUp();
  CHECK(length->value() == 8192);
  length->setValue(3000);
  length->stepDown();
  CHECK(length->value() == 2048);
  length->setValue(1);
  length->stepDown();
  CHECK(length->value() == 1);
}

TEST_CASE("ScenarioEditor: numbers half typed are no questions") {
  EditorScene scene;
  auto* const length = scene.control<QSpinBox>("Sequence length in tokens");
  length->selectAll();
  QTest::keyClicks(length, QStringLiteral("4096"));
  CHECK(scene.announced.empty());
  QTest::keyClick(length, Qt::Key_Return);
  CHECK(scene.announced.size() == 1);
  CHECK(scene.last().after.plan.workload.sequence == 4096);
}

}  // namespace headroom::gui
