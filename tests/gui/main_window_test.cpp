#include "gui/main_window.h"

#include <atomic>
#include <mutex>
#include <thread>

#include <QAbstractButton>
#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QDropEvent>
#include <QFile>
#include <QLabel>
#include <QMenu>
#include <QMimeData>
#include <QSlider>
#include <QSpinBox>
#include <QTabBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QUrl>

#include <doctest/doctest.h>

#include "gui/models/compare_model.h"
#include "gui/pages/page_book.h"
#include "gui/views/breakdown_view.h"
#include "gui/views/remedy_bar.h"
#include "gui/views/verdict_header.h"
#include "runtimes/deepspeed/plan.h"
#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

using test::eventually;

/// The window with an estimator of the test's, and the answers it has shown.
struct WindowScene {
  explicit WindowScene(WindowSetup setup = test::fake_setup()) : window(std::move(setup)) {
    QObject::connect(&window, &MainWindow::answered, &window,
                     [this](const Answer& answer) { answers.push_back(answer); });
    window.show();
  }
  [[nodiscard]] bool waitForAnswers(std::size_t count) {
    return eventually([&] { return answers.size() >= count; });
  }
  template <typename T>
  [[nodiscard]] T* control(const char* accessible_name) {
    for (T* candidate : window.findChildren<T*>()) {
      if (candidate->accessibleName() == QLatin1String(accessible_name)) {
        return candidate;
      }
    }
    FAIL("no control is called " << accessible_name);
    return nullptr;
  }
  [[nodiscard]] QString text(const char* label) const {
    return window.findChild<QLabel*>(QLatin1String(label))->text();
  }
  [[nodiscard]] QTableView* breakdown() {
    return window.findChild<QTableView*>(QStringLiteral("phase table"));
  }
  [[nodiscard]] QAbstractItemModel* table() { return breakdown()->model(); }

  MainWindow window;
  std::vector<Answer> answers;
};

QImage picture(QWidget& widget) {
  return widget.grab().toImage();
}

int colours_in(const QImage& image) {
  QSet<QRgb> colours;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) {
      colours.insert(image.pixel(x, y));
    }
  }
  return static_cast<int>(colours.size());
}

}  // namespace

TEST_CASE("MainWindow: opens with an answer to what it shows") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  CHECK(scene.answers[0].scenario == default_scenario());
  CHECK(scene.text("verdict") == QStringLiteral("Fits"));
  CHECK(scene.text("margin") == QStringLiteral("45.0\u00a0GiB to spare"));
  CHECK(scene.table()->rowCount() == 3);
}

TEST_CASE("MainWindow: another micro-batch asks again and changes header, bars and table") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  auto* const bars = scene.window.findChild<BreakdownView*>(QStringLiteral("phase bars"));
  const QImage before = picture(*bars);
  auto* const box = scene.control<QSpinBox>("Micro-batch");
  box->setFocus();
  QTest::keyClick(box, Qt::Key_Up);
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.answers[1].scenario.plan.workload.micro_batch == 2);
  CHECK(scene.text("margin") == QStringLiteral("44.0\u00a0GiB to spare"));
  CHECK(picture(*bars) != before);
  CHECK(scene.table()
            ->index(1, BreakdownModel::kPeakColumn)
            .data(BreakdownModel::kBytesRole)
            .toLongLong() == 18 * kGiB);
}

TEST_CASE("MainWindow: what no longer fits says so in words and colour") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  auto* const header = scene.window.findChild<VerdictHeader*>();
  const QImage before = picture(*header);
  scene.control<QSpinBox>("Micro-batch")->setValue(60);
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.text("verdict") == QStringLiteral("Does not fit"));
  CHECK(scene.text("margin") == QStringLiteral("14.0\u00a0GiB missing"));
  CHECK(header->accessibleName().startsWith(QStringLiteral("Does not fit: 14.0")));
  CHECK(picture(*header) != before);
}

TEST_CASE("MainWindow: Ctrl+Z restores the scenario, the controls and the answer") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  auto* const box = scene.control<QSpinBox>("Micro-batch");
  box->setValue(7);
  REQUIRE(scene.waitForAnswers(2));
  QTest::keyClick(&scene.window, Qt::Key_Z, Qt::ControlModifier);
  CHECK(box->value() == 1);
  CHECK(scene.window.scenario() == default_scenario());
  REQUIRE(scene.waitForAnswers(3));
  CHECK(scene.text("margin") == QStringLiteral("45.0\u00a0GiB to spare"));
  QTest::keyClick(&scene.window, Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
  CHECK(box->value() == 7);
  REQUIRE(scene.waitForAnswers(4));
  CHECK(scene.text("margin") == QStringLiteral("39.0\u00a0GiB to spare"));
}

TEST_CASE("MainWindow: a drag of the slider is one step back") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  auto* const slider = scene.control<QSlider>("Micro-batch, slider");
  slider->setSliderDown(true);
  for (int position = 1; position <= 4; ++position) {
    slider->setSliderPosition(position);
  }
  slider->setSliderDown(false);
  CHECK(scene.window.scenario().plan.workload.micro_batch == 16);
  QTest::keyClick(&scene.window, Qt::Key_Z, Qt::ControlModifier);
  CHECK(scene.window.scenario() == default_scenario());
}

TEST_CASE("MainWindow: reset goes back to the beginning, and can be undone") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  scene.control<QSpinBox>("Micro-batch")->setValue(7);
  scene.control<QCheckBox>("Train LoRA adapters")->click();
  QTest::keyClick(&scene.window, Qt::Key_R, Qt::ControlModifier);
  CHECK(scene.window.scenario() == default_scenario());
  CHECK_FALSE(scene.control<QCheckBox>("Train LoRA adapters")->isChecked());
  QTest::keyClick(&scene.window, Qt::Key_Z, Qt::ControlModifier);
  CHECK(scene.window.scenario().plan.workload.micro_batch == 7);
  CHECK(scene.window.scenario().plan.lora);
}

TEST_CASE("MainWindow: an answer to a question that is no longer asked is never shown") {
  std::atomic<bool> running = false;
  WindowScene scene(test::setup_with([&](const Scenario& scenario, const std::stop_token& stop) {
    if (scenario.plan.workload.micro_batch ==
        50) {  // Would not fit, and takes until it is stopped.
      running = true;
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      wake.wait(lock, stop, [] { return false; });
    }
    return test::answer(scenario);
  }));
  REQUIRE(scene.waitForAnswers(1));
  scene.control<QSpinBox>("Micro-batch")->setValue(50);
  REQUIRE(eventually([&] { return running.load(); }));
  scene.control<QSpinBox>("Micro-batch")->setValue(2);
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.answers.size() == 2);
  CHECK(scene.answers[1].scenario.plan.workload.micro_batch == 2);
  CHECK(scene.text("verdict") == QStringLiteral("Fits"));
}

TEST_CASE("MainWindow: an error of the input takes the place of the verdict, with its remedy") {
  WindowScene scene(test::setup_with(
      [](const Scenario& scenario, const std::stop_token& /*stop*/) -> Result<Appraisal> {
        if (scenario.plan.workload.micro_batch == 2) {
          return Error::invalid_argument("gpu", "h1000", "a GPU of the catalogue", "use h100");
        }
        return test::answer(scenario);
      }));
  REQUIRE(scene.waitForAnswers(1));
  scene.control<QSpinBox>("Micro-batch")->setValue(2);
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.text("verdict") == QStringLiteral("No answer"));
  CHECK(scene.text("margin") == QStringLiteral("gpu: got h1000, expected a GPU of the catalogue"));
  CHECK(scene.text("basis") == QStringLiteral("fix: use h100"));
  CHECK(scene.table()->rowCount() == 0);
  scene.control<QSpinBox>("Micro-batch")->setValue(3);
  REQUIRE(scene.waitForAnswers(3));
  CHECK(scene.text("verdict") == QStringLiteral("Fits"));
}

TEST_CASE("MainWindow: an exception is a message, not the end") {
  WindowScene scene(test::setup_with(
      [](const Scenario& scenario, const std::stop_token& /*stop*/) -> Result<Appraisal> {
        if (scenario.plan.workload.micro_batch == 1) {
          throw InternalError("broken invariant");
        }
        return test::answer(scenario);
      }));
  REQUIRE(scene.waitForAnswers(1));
  CHECK(scene.text("verdict") == QStringLiteral("No answer"));
  CHECK(scene.text("basis") == QStringLiteral("broken invariant"));
  scene.control<QSpinBox>("Micro-batch")->setValue(2);
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.text("verdict") == QStringLiteral("Fits"));
}

TEST_CASE("MainWindow: an answer that takes its time is announced as on its way") {
  std::atomic<bool> let_go = false;
  WindowScene scene(test::setup_with([&](const Scenario& scenario, const std::stop_token& stop) {
    while (scenario.plan.workload.micro_batch == 2 && !let_go && !stop.stop_requested()) {
      std::this_thread::yield();
    }
    return test::answer(scenario);
  }));
  REQUIRE(scene.waitForAnswers(1));
  CHECK(scene.text("busy").isEmpty());
  scene.control<QSpinBox>("Micro-batch")->setValue(2);
  REQUIRE(eventually([&] { return !scene.text("busy").isEmpty(); }));
  let_go = true;
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.text("busy").isEmpty());
}

TEST_CASE("MainWindow: bars and table share the current cell") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  auto* const bars = scene.window.findChild<BreakdownView*>(QStringLiteral("phase bars"));
  auto* const table = scene.breakdown();
  QTest::keyClick(bars, Qt::Key_End);
  CHECK(table->currentIndex().row() == 2);
  table->setCurrentIndex(table->model()->index(1, BreakdownModel::kFirstCategoryColumn));
  CHECK(bars->accessibleDescription().startsWith(QStringLiteral("step1.forward, parameters")));
}

TEST_CASE("MainWindow: whatever takes the keyboard has a name for screen readers") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  int named = 0;
  for (const QWidget* widget : scene.window.findChildren<QWidget*>()) {
    // Parts of a control hand the focus to it, and lists that are not open cannot have it.
    if (widget->focusPolicy() == Qt::NoFocus || widget->focusProxy() != nullptr ||
        widget->window() != &scene.window) {
      continue;
    }
    // A label's text is its name, and tabs have those of their pages.
    if (qobject_cast<const QLabel*>(widget) != nullptr ||
        qobject_cast<const QTabBar*>(widget) != nullptr ||
        qobject_cast<const QTabBar*>(widget->parentWidget()) != nullptr) {
      continue;
    }
    if (const auto* const button = qobject_cast<const QAbstractButton*>(widget);
        button != nullptr && !button->text().isEmpty()) {
      continue;  // Screen readers read it.
    }
    CAPTURE(std::string(widget->metaObject()->className()));
    CAPTURE(widget->objectName());
    CHECK_FALSE(widget->accessibleName().isEmpty());
    ++named;
  }
  CHECK(named >= 20);
}

TEST_CASE("MainWindow: Tab reaches every control and comes back") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  auto* const first = scene.control<QComboBox>("Model");
  first->setFocus();
  QSet<QString> visited;
  for (int i = 0; i < 100; ++i) {
    QTest::keyClick(
        QApplication::focusWidget() == nullptr ? &scene.window : QApplication::focusWidget(),
        Qt::Key_Tab);
    const QWidget* const now = QApplication::focusWidget();
    if (now == nullptr || now == first) {
      break;
    }
    visited.insert(now->accessibleName());
  }
  CHECK(visited.contains(QStringLiteral("Micro-batch")));
  CHECK(visited.contains(QStringLiteral("Memory at the peak of each phase, by category")));
  CHECK(visited.contains(QStringLiteral("Peak of each phase, by category, as a table")));
}

TEST_CASE("MainWindow: a dropped config.json becomes the model, and can be undone") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("config.json"));
  QFile file(path);
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(R"({"model_type": "llama"})");
  file.close();
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(path)});
  QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&scene.window, &enter);
  CHECK(enter.isAccepted());
  QDropEvent drop(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&scene.window, &drop);
  CHECK(scene.window.scenario().model == ModelSource{ModelSource::Kind::kFile, path.toStdString()});
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.control<QComboBox>("Model")->currentText() == path);
  QTest::keyClick(&scene.window, Qt::Key_Z, Qt::ControlModifier);
  CHECK(scene.window.scenario() == default_scenario());
}

TEST_CASE("MainWindow: a saved plan opens again, and is among the recent files") {
  const QTemporaryDir folder;
  WindowSetup setup = test::fake_setup();
  setup.config_dir = HEADROOM_SOURCE_DIR "/configs";
  setup.settings = folder.filePath(QStringLiteral("window.ini"));
  WindowScene scene(std::move(setup));
  REQUIRE(scene.waitForAnswers(1));
  scene.control<QSpinBox>("Micro-batch")->setValue(7);
  const Scenario saved = scene.window.scenario();
  const QString path = folder.filePath(QStringLiteral("plan.json"));
  CHECK(scene.window.savePlan(path).isEmpty());
  scene.control<QSpinBox>("Micro-batch")->setValue(3);
  CHECK(scene.window.openPath(path).isEmpty());
  CHECK(scene.window.scenario() == saved);
  CHECK(scene.window.whatIf().undoStack()->undoText() == QStringLiteral("plan.json"));
  QTest::keyClick(&scene.window, Qt::Key_Z, Qt::ControlModifier);
  CHECK(scene.window.scenario().plan.workload.micro_batch == 3);
  bool remembered = false;
  for (const QMenu* menu : scene.window.findChildren<QMenu*>()) {
    for (const QAction* action : menu->actions()) {
      remembered = remembered || action->text() == path;
    }
  }
  CHECK(remembered);
  CHECK(scene.window.openPath(folder.filePath(QStringLiteral("none.json")))
            .contains(QStringLiteral("none.json")));
}

TEST_CASE("MainWindow: a DeepSpeed configuration becomes the plan") {
  const QTemporaryDir folder;
  WindowSetup setup = test::fake_setup();
  setup.config_dir = HEADROOM_SOURCE_DIR "/configs";
  WindowScene scene(std::move(setup));
  const QString path = folder.filePath(QStringLiteral("ds_config.json"));
  QFile file(path);
  REQUIRE(file.open(QIODevice::WriteOnly));
  file.write(R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3},
                 "train_micro_batch_size_per_gpu": 2})");
  file.close();
  CHECK(scene.window.openPath(path) == QString());
  CHECK(scene.window.scenario().plan.runtime == "deepspeed");
  REQUIRE(has_zero(scene.window.scenario().plan));
  CHECK(zero_of(scene.window.scenario().plan).stage == 3);
  CHECK(scene.window.scenario().plan.workload.micro_batch == 2);
}

TEST_CASE("MainWindow: a remedy's button makes the change, as one step") {
  WindowSetup setup = test::fake_setup();
  setup.remedies = [](const Scenario& scenario, const std::stop_token& /*stop*/) {
    Appraisal appraisal;
    cost::Remedies found;
    cost::Remedy remedy;
    remedy.changes = {cost::Change::kSmallerMicroBatch};
    remedy.plan = scenario.plan;
    remedy.plan.workload.micro_batch = 30;
    remedy.verdict = cost::Verdict::kFits;
    remedy.margin = Bytes{16 * kGiB};
    found.cheapest = {remedy};
    appraisal.remedies = found;
    return Result<Appraisal>(appraisal);
  };
  WindowScene scene(std::move(setup));
  REQUIRE(scene.waitForAnswers(1));
  auto* const button = scene.window.findChild<RemedyButton*>(QStringLiteral("remedy 1"));
  CHECK_FALSE(button->isVisible());
  scene.control<QSpinBox>("Micro-batch")->setValue(60);
  REQUIRE(eventually([&] { return button->isVisible(); }));
  CHECK(button->accessibleName().contains(QStringLiteral("Smaller micro-batches")));
  CHECK(button->accessibleDescription().contains(QStringLiteral("fits, 16.0\u00a0GiB to spare")));
  CHECK(scene.text("remedies headline").startsWith(QStringLiteral("What makes it fit")));
  const int steps = scene.window.whatIf().undoStack()->count();
  button->click();
  CHECK(scene.window.scenario().plan.workload.micro_batch == 30);
  CHECK(scene.window.whatIf().undoStack()->count() == steps + 1);
  REQUIRE(eventually([&] { return !button->isVisible(); }));
  CHECK(scene.text("verdict") == QStringLiteral("Fits"));
}

TEST_CASE("MainWindow: a pinned scenario shows every difference, and comes back as one step") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  QTest::keyClick(&scene.window, Qt::Key_D, Qt::ControlModifier);
  scene.control<QSpinBox>("Micro-batch")->setValue(5);
  REQUIRE(scene.waitForAnswers(2));
  CHECK(scene.text("margin") == QStringLiteral("41.0\u00a0GiB to spare (−4.00\u00a0GiB)"));
  CHECK(scene.window.pages()->openPage(QStringLiteral("compare")));
  const auto* const model = scene.window.pages()->currentPage()->findChild<QTableView*>()->model();
  QStringList names;
  for (int row = 0; row < model->rowCount(); ++row) {
    names.append(model->index(row, CompareModel::kNameColumn).data().toString());
  }
  CHECK(names.contains(QStringLiteral("Peak reserved")));
  CHECK(names.last() == QStringLiteral("Micro-batch"));
  QTest::keyClick(&scene.window, Qt::Key_D, Qt::ControlModifier);
  CHECK(scene.text("margin") == QStringLiteral("41.0\u00a0GiB to spare"));
  CHECK(model->rowCount() == 0);
}

TEST_CASE("MainWindow: what is no configuration is not accepted by a drop") {
  WindowScene scene;
  QMimeData data;
  data.setUrls({QUrl(QStringLiteral("https://example.org/config.json"))});
  QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  enter.ignore();
  QApplication::sendEvent(&scene.window, &enter);
  CHECK_FALSE(enter.isAccepted());
}

TEST_CASE("MainWindow: light and dark are two pictures, and both have all colours of the chart") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  scene.window.setLook(Look::kLight);
  const QImage light = picture(scene.window);
  scene.window.setLook(Look::kDark);
  const QImage dark = picture(scene.window);
  CHECK(light != dark);
  CHECK(light.pixelColor(2, light.height() - 2).lightness() > 200);
  CHECK(dark.pixelColor(2, dark.height() - 2).lightness() < 60);
  CHECK(colours_in(light) > 50);
  CHECK(colours_in(dark) > 50);
  scene.window.setLook(Look::kDesktop);
  CHECK(picture(scene.window) != dark);
}

TEST_CASE("MainWindow: saves its picture whole or not at all") {
  WindowScene scene;
  REQUIRE(scene.waitForAnswers(1));
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("window.png"));
  CHECK(scene.window.savePicture(path).isEmpty());
  const QImage saved(path);
  CHECK(saved.size() == scene.window.grab().size());
  CHECK(colours_in(saved) > 50);
  const QString impossible = folder.filePath(QStringLiteral("no-folder/window.png"));
  CHECK_FALSE(scene.window.savePicture(impossible).isEmpty());
  CHECK_FALSE(QFile::exists(impossible));
}

}  // namespace headroom::gui
