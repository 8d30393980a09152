#include "gui/main_window.h"

#include <atomic>
#include <mutex>
#include <thread>

#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QDropEvent>
#include <QFile>
#include <QLabel>
#include <QMimeData>
#include <QSlider>
#include <QSpinBox>
#include <QTableView>
#include <QTemporaryDir>
#include <QUrl>

#include <doctest/doctest.h>

#include "gui/views/breakdown_view.h"
#include "gui/views/verdict_header.h"
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
    return window.findChild<QWidget*>(QStringLiteral("memory"))->findChild<QTableView*>();
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
  auto* const bars = scene.window.findChild<BreakdownView*>();
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
  for (int position = 2; position <= 20; ++position) {
    slider->setSliderPosition(position);
  }
  slider->setSliderDown(false);
  CHECK(scene.window.scenario().plan.workload.micro_batch == 20);
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
      [](const Scenario& scenario, const std::stop_token& /*stop*/) -> Result<cost::StepEstimate> {
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
      [](const Scenario& scenario, const std::stop_token& /*stop*/) -> Result<cost::StepEstimate> {
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
  auto* const bars = scene.window.findChild<BreakdownView*>();
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
    CAPTURE(widget->metaObject()->className());
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
