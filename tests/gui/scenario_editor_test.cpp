#include "gui/views/scenario_editor.h"

#include <algorithm>
#include <set>

#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QSlider>
#include <QSpinBox>
#include <QToolButton>

#include <doctest/doctest.h>

#include "gui/views/option_control.h"
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
  other = moved_to(other, "deepspeed");
  other.plan.workload.micro_batch = 5;
  other.plan.workload.sequence = 4096;
  other.plan.lora.emplace();
  other.plan.allocator.expandable_segments = true;
  scene.editor.setScenario(settled(other));
  QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);  // The former options.
  CHECK(scene.announced.empty());
  CHECK(scene.control<QComboBox>("Model")->currentText() == QStringLiteral("gpt2"));
  CHECK(scene.control<QComboBox>("GPU")->currentText() == QStringLiteral("h100-80gb"));
  CHECK(scene.control<QLineEdit>("Budget")->text() == QStringLiteral("70GiB"));
  CHECK(scene.control<QComboBox>("Framework")->currentText() == QStringLiteral("deepspeed"));
  CHECK(scene.control<QSpinBox>("Micro-batch")->value() == 5);
  CHECK(scene.control<QSpinBox>("Sequence length")->value() == 4096);
  CHECK(scene.control<QCheckBox>("Train LoRA adapters")->isChecked());
  CHECK(scene.control<QCheckBox>("Expandable segments")->isChecked());
}

TEST_CASE("ScenarioEditor: every choice reaches its field of the plan") {
  EditorScene scene;
  choose(scene.control<QComboBox>("Precision"), QStringLiteral("autocast-bf16"));
  CHECK(scene.last().after.plan.precision == ir::Precision::kAutocastBf16);
  CHECK(scene.last().edit.field == Field::kOption);
  CHECK(scene.last().edit.control == "plan.precision");
  CHECK(scene.last().edit.text == QStringLiteral("Precision"));
  choose(scene.control<QComboBox>("Optimizer"), QStringLiteral("sgd"));
  CHECK(scene.last().after.plan.optimizer.kind == ir::OptimizerKind::kSgd);
  choose(scene.control<QComboBox>("Attention"), QStringLiteral("flash"));
  CHECK(scene.last().after.plan.attention == ir::AttentionKind::kFlash);
  auto* const checkpointing = scene.control<QComboBox>("Checkpointing");
  Q_EMIT checkpointing->activated(checkpointing->findText(QStringLiteral("every-2")));
  CHECK(scene.last().after.plan.recompute == ir::Recompute::kFull);
  CHECK(scene.last().after.plan.recompute_every == 2);
  CHECK(scene.announced.size() == 4);
}

TEST_CASE("ScenarioEditor: a text that an option does not accept stays out of the plan") {
  EditorScene scene;
  auto* const checkpointing = scene.control<QComboBox>("Checkpointing");
  checkpointing->lineEdit()->setText(QStringLiteral("sometimes"));
  QTest::keyClick(checkpointing->lineEdit(), Qt::Key_Return);
  CHECK(scene.announced.empty());
}

TEST_CASE("ScenarioEditor: every number reaches its field of the plan") {
  EditorScene scene;
  scene.control<QSpinBox>("Number of GPUs")->setValue(8);
  CHECK(scene.last().after.plan.world == 8);
  scene.control<QSpinBox>("Micro-batch")->setValue(4);
  CHECK(scene.last().after.plan.workload.micro_batch == 4);
  scene.control<QSpinBox>("Sequence length")->setValue(3000);
  CHECK(scene.last().after.plan.workload.sequence == 3000);
  scene.control<QSpinBox>("Accumulation")->setValue(16);
  CHECK(scene.last().after.plan.workload.accumulation == 16);
}

TEST_CASE("ScenarioEditor: a framework shows the options that it has, and no others") {
  EditorScene scene;
  scene.control<QSpinBox>("Number of GPUs")->setValue(8);
  const auto row = [&](const char* id) {
    return scene.editor.findChild<OptionControl*>(QLatin1String(id));
  };
  const auto settle = [] { QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete); };
  CHECK(row("megatron.tp") == nullptr);
  choose(scene.control<QComboBox>("Framework"), QStringLiteral("megatron"));
  settle();
  REQUIRE(row("megatron.tp") != nullptr);
  CHECK(row("megatron.tp")->isVisibleTo(&scene.editor));
  CHECK(row("fsdp.replicas") == nullptr);
  row("megatron.tp")->findChild<QSpinBox*>()->setValue(4);
  REQUIRE(has_megatron(scene.last().after.plan));
  CHECK(scene.last().after.plan.mesh.tensor == 4);
  CHECK(scene.last().edit.control == "megatron.tp");

  choose(scene.control<QComboBox>("Framework"), QStringLiteral("torchtitan"));
  settle();
  CHECK(row("megatron.tp") == nullptr);
  row("titan.tp")->findChild<QSpinBox*>()->setValue(2);
  REQUIRE(has_titan(scene.last().after.plan));
  CHECK(scene.last().after.plan.mesh.tensor == 2);
  row("fsdp.replicas")->findChild<QSpinBox*>()->setValue(2);
  REQUIRE(has_fsdp(scene.last().after.plan));
  CHECK(scene.last().after.plan.mesh.replicas == 2);

  choose(scene.control<QComboBox>("Framework"), QStringLiteral("deepspeed"));
  settle();
  row("zero.stage")->findChild<QSpinBox*>()->setValue(3);
  REQUIRE(has_zero(scene.last().after.plan));
  CHECK(zero_of(scene.last().after.plan).stage == 3);
}

TEST_CASE("ScenarioEditor: adapters come and go with their check box, and quantisation with them") {
  EditorScene scene;
  auto* const lora = scene.control<QCheckBox>("Train LoRA adapters");
  auto* const quantised = scene.control<QCheckBox>("Quantise frozen weights (QLoRA)");
  auto* const rank = scene.control<QSpinBox>("LoRA rank");
  CHECK_FALSE(rank->isVisibleTo(&scene.editor));
  lora->click();
  CHECK(scene.last().after.plan.lora == ir::LoraPlan{});
  CHECK(rank->isVisibleTo(&scene.editor));
  rank->setValue(64);
  CHECK(scene.last().after.plan.lora->rank == 64);
  quantised->click();
  REQUIRE(scene.last().after.plan.quant);
  lora->click();
  CHECK_FALSE(scene.last().after.plan.quant);
  CHECK_FALSE(quantised->isChecked());
}

TEST_CASE("ScenarioEditor: what differs from its default is shown, and the rest when asked for") {
  EditorScene scene;
  const auto row = [&](const char* id) {
    return scene.editor.findChild<OptionControl*>(QLatin1String(id));
  };
  CHECK(row("plan.micro_batch")->isVisibleTo(&scene.editor));
  CHECK_FALSE(row("plan.keep_logits")->isVisibleTo(&scene.editor));
  Scenario other = default_scenario();
  other.plan.workload.keep_logits = true;
  scene.editor.setScenario(other);
  CHECK(row("plan.keep_logits")->isVisibleTo(&scene.editor));
  CHECK_FALSE(row("plan.evaluation")->isVisibleTo(&scene.editor));
  scene.editor.findChild<QWidget*>(QStringLiteral("plan"))
      ->findChild<QToolButton*>(QStringLiteral("more"))
      ->click();
  CHECK(row("plan.evaluation")->isVisibleTo(&scene.editor));
}

TEST_CASE("ScenarioEditor: the filter finds options by what they do, wherever they are") {
  EditorScene scene;
  auto* const filter = scene.control<QLineEdit>("Find an option");
  const auto row = [&](const char* id) {
    return scene.editor.findChild<OptionControl*>(QLatin1String(id));
  };
  QTest::keyClicks(filter, QStringLiteral("logits kept"));
  CHECK(row("plan.keep_logits")->isVisibleTo(&scene.editor));
  CHECK_FALSE(row("plan.micro_batch")->isVisibleTo(&scene.editor));
  filter->clear();
  CHECK(row("plan.micro_batch")->isVisibleTo(&scene.editor));
}

TEST_CASE("ScenarioEditor: a refusal stands at the option that it names") {
  EditorScene scene;
  auto* const row = scene.editor.findChild<OptionControl*>(QStringLiteral("plan.attention"));
  const auto says = [row](const QString& text) {
    const auto labels = row->findChildren<QLabel*>();
    return std::ranges::any_of(labels, [&text](const QLabel* label) {
      return label->text().contains(text) && !label->isHidden();
    });
  };
  scene.editor.showRefusal(Error::invalid_argument("attention", "flash", "sdpa", "use sdpa"));
  CHECK(says(QStringLiteral("got flash, expected sdpa")));
  CHECK(says(QStringLiteral("use sdpa")));
  scene.editor.showRefusal(std::nullopt);
  CHECK_FALSE(says(QStringLiteral("got flash")));
}

TEST_CASE("ScenarioEditor: an axis is freed for the search with its padlock") {
  EditorScene scene;
  const QSignalSpy freed(&scene.editor, &ScenarioEditor::freeAxesEdited);
  auto* const row = scene.editor.findChild<OptionControl*>(QStringLiteral("plan.micro_batch"));
  auto* const padlock = row->findChild<QToolButton*>(QStringLiteral("free"));
  padlock->click();
  REQUIRE(freed.count() == 1);
  CHECK(freed.front().front().value<std::set<std::string>>() ==
        std::set<std::string>{"micro-batch"});
  scene.editor.setFreeAxes({});
  CHECK_FALSE(padlock->isChecked());
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
  scene.control<QPushButton>("Open a model, a plan or a program")->click();
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
  slider->setSliderPosition(2);
  slider->setSliderPosition(3);
  slider->setSliderDown(false);
  REQUIRE(scene.announced.size() == 2);
  CHECK(scene.announced[0].edit.gesture == scene.announced[1].edit.gesture);
  CHECK(scene.announced[1].after.plan.workload.micro_batch == 8);
  QTest::keyClick(slider, Qt::Key_Right);
  QTest::keyClick(slider, Qt::Key_Right);
  REQUIRE(scene.announced.size() == 4);
  CHECK(scene.announced[2].edit.gesture != scene.announced[1].edit.gesture);
  CHECK(scene.announced[3].edit.gesture != scene.announced[2].edit.gesture);
}

TEST_CASE("ScenarioEditor: lengths double with the box's arrows, from any number") {
  EditorScene scene;
  auto* const length = scene.control<QSpinBox>("Sequence length");
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
  auto* const length = scene.control<QSpinBox>("Sequence length");
  length->selectAll();
  QTest::keyClicks(length, QStringLiteral("4096"));
  CHECK(scene.announced.empty());
  QTest::keyClick(length, Qt::Key_Return);
  CHECK(scene.announced.size() == 1);
  CHECK(scene.last().after.plan.workload.sequence == 4096);
}

}  // namespace headroom::gui
