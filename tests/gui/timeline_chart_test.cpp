#include "gui/charts/timeline_chart.h"

#include <cstdlib>

#include <QApplication>
#include <QFile>
#include <QImage>
#include <QImageReader>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QWheelEvent>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"
#include "tests/gui/real_answer.h"

namespace headroom::gui {
namespace {

struct ChartScene {
  explicit ChartScene(std::shared_ptr<const TimelineData> data = test::small_timeline()) {
    chart.setPalette(palette_of(Look::kLight, {}));
    chart.resize(900, 400);
    chart.show();
    chart.setData(std::move(data));
  }
  void press(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) {
    QTest::keyClick(&chart, key, modifiers);
  }
  [[nodiscard]] QImage picture() { return chart.grab().toImage(); }
  [[nodiscard]] std::size_t peak() const { return chart.data()->history.whole().peak; }

  TimelineChart chart;
};

}  // namespace

TEST_CASE("TimelineChart: opens on the step with the peak, and names the peak's moment") {
  ChartScene scene;
  CHECK(scene.chart.moment() == scene.peak());
  const EventRange step = peak_step(*scene.chart.data()->estimate, scene.peak());
  CHECK(scene.chart.span() ==
        ZoomSpan{.begin = static_cast<double>(step.begin), .end = static_cast<double>(step.end)});
  CHECK(test::has_colours(scene.chart, 40));
}

TEST_CASE("TimelineChart: paints each category where its bytes are") {
  ChartScene scene;
  scene.chart.setFitsContents(true);
  const Theme theme = theme_of(scene.chart.palette());
  // The parameters are the lowest area and are alive all the time.
  QPointF place = scene.chart.placeOf(scene.peak());
  place.setY(scene.chart.height() - 5.0 * scene.chart.fontMetrics().height());
  const QImage picture = scene.picture();
  CHECK(picture.pixelColor(QPoint(static_cast<int>(place.x()) + 8, static_cast<int>(place.y()))) ==
        theme.of(ir::TensorRole::kParameter).fill);
}

TEST_CASE("Chart: saved as SVG where Qt can, it looks as it does on the screen") {
  ChartScene scene;
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("chart.svg"));
  REQUIRE(Chart::pictureFilter().contains(QStringLiteral("*.png")));
  if (!Chart::pictureFilter().contains(QStringLiteral("*.svg"))) {
    CHECK_FALSE(scene.chart.savePicture(path).isEmpty());
    CHECK_FALSE(QFile::exists(path));
    return;
  }
  REQUIRE(scene.chart.savePicture(path).isEmpty());
  QFile file(path);
  REQUIRE(file.open(QIODevice::ReadOnly));
  CHECK(file.readAll().contains("<svg "));
  const QImage shown = scene.picture().convertToFormat(QImage::Format_RGB32);
  QImageReader reader(path);  // Qt's plugin for SVG draws the file.
  reader.setScaledSize(shown.size());
  const QImage drawn = reader.read().convertToFormat(QImage::Format_RGB32);
  REQUIRE(drawn.size() == shown.size());
  int alike = 0;
  for (int y = 0; y < shown.height(); ++y) {
    for (int x = 0; x < shown.width(); ++x) {
      const QColor one = drawn.pixelColor(x, y);
      const QColor other = shown.pixelColor(x, y);
      const int distance = std::abs(one.red() - other.red()) +
                           std::abs(one.green() - other.green()) +
                           std::abs(one.blue() - other.blue());
      alike += distance < 60 ? 1 : 0;
    }
  }
  // The frame around what has the keyboard's focus is on the screen alone.
  CHECK(alike > 0.95 * shown.width() * shown.height());
}

TEST_CASE("TimelineChart: a small run is scaled to its contents until the user chooses") {
  ChartScene scene;
  CHECK(scene.chart.fitsContents());
  scene.press(Qt::Key_F);
  CHECK_FALSE(scene.chart.fitsContents());
  scene.chart.setData(test::small_timeline());
  CHECK_FALSE(scene.chart.fitsContents());
}

TEST_CASE("TimelineChart: a click chooses the moment under the mouse") {
  ChartScene scene;
  const QSignalSpy spy(&scene.chart, &TimelineChart::momentChanged);
  const QPoint place(500, 300);
  const auto event = scene.chart.eventAt(QPointF(place));
  REQUIRE(event);
  QTest::mouseClick(&scene.chart, Qt::LeftButton, {}, place);
  CHECK(scene.chart.moment() == *event);
  CHECK(spy.count() == 1);
}

TEST_CASE("TimelineChart: keys walk through events and phases of the view") {
  ChartScene scene;
  scene.press(Qt::Key_Right);
  CHECK(scene.chart.moment() == scene.peak() + 1);
  scene.press(Qt::Key_Left);
  scene.press(Qt::Key_Left);
  CHECK(scene.chart.moment() == scene.peak() - 1);
  scene.press(Qt::Key_End);
  CHECK(scene.chart.moment() == scene.chart.data()->history.size() - 1);
  scene.press(Qt::Key_Home);
  CHECK(scene.chart.moment() == 0U);
  CHECK(scene.chart.span().begin <= 0.5);  // The chosen moment is visible.
  scene.press(Qt::Key_P);
  CHECK(scene.chart.moment() == scene.peak());
}

TEST_CASE("TimelineChart: wheel and keys zoom, dragging pans, 0 shows everything") {
  ChartScene scene;
  const double before = scene.chart.span().length();
  const QPointF place(450, 250);
  const auto kept = scene.chart.eventAt(place);
  QWheelEvent turn(place, scene.chart.mapToGlobal(place), {}, {0, 240}, Qt::NoButton, {},
                   Qt::NoScrollPhase, false);
  QApplication::sendEvent(&scene.chart, &turn);
  CHECK(scene.chart.span().length() < before);
  const auto now = scene.chart.eventAt(place);
  REQUIRE(kept);
  REQUIRE(now);
  CHECK(*now == *kept);
  scene.press(Qt::Key_Plus);
  const ZoomSpan zoomed_in = scene.chart.span();
  QTest::mousePress(&scene.chart, Qt::LeftButton, {}, QPoint(450, 250));
  QTest::mouseMove(&scene.chart, QPoint(350, 250));
  QTest::mouseRelease(&scene.chart, Qt::LeftButton, {}, QPoint(350, 250));
  CHECK(scene.chart.span().begin > zoomed_in.begin);
  CHECK(scene.chart.span().length() == doctest::Approx(zoomed_in.length()));
  CHECK(scene.chart.moment() == scene.peak());  // A drag is no click.
  scene.press(Qt::Key_0);
  CHECK(scene.chart.span().begin == 0);
}

TEST_CASE("TimelineChart: view and moment stay when the same phases come again") {
  ChartScene scene;
  scene.press(Qt::Key_Plus);
  scene.press(Qt::Key_Home);
  const ZoomSpan before = scene.chart.span();
  scene.chart.setData(test::small_timeline());
  CHECK(scene.chart.moment() == 0U);
  CHECK(scene.chart.span().begin == doctest::Approx(before.begin));
}

TEST_CASE("TimelineChart: shows nothing without data, and says so") {
  ChartScene scene;
  const QImage before = scene.picture();
  scene.chart.setData(nullptr);
  CHECK_FALSE(scene.chart.moment());
  CHECK(scene.picture() != before);
  scene.press(Qt::Key_Right);
  CHECK_FALSE(scene.chart.moment());
}

TEST_CASE("TimelineChart: follows the palette") {
  ChartScene scene;
  const QImage light = scene.picture();
  scene.chart.setPalette(palette_of(Look::kDark, {}));
  CHECK(scene.picture() != light);
  CHECK(test::has_colours(scene.chart, 40));
}

TEST_CASE("TimelineChart: is saved as a picture of twice its size") {
  ChartScene scene;
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("timeline.png"));
  CHECK(scene.chart.savePicture(path) == QString());
  CHECK(QImage(path).size() == 2 * scene.chart.size());
  CHECK_FALSE(scene.chart.savePicture(QStringLiteral("/nowhere/timeline.png")).isEmpty());
}

}  // namespace headroom::gui
