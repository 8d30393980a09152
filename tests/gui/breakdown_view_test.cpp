#include "gui/views/breakdown_view.h"

#include <QApplication>
#include <QMouseEvent>
#include <QScrollBar>
#include <QSignalSpy>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

using test::kActivations;
using test::kGradients;
using test::kParameters;

struct ViewScene {
  explicit ViewScene(std::int64_t micro_batch) : selection(&model), view(&model, &selection) {
    setMicroBatch(micro_batch);
    view.setPalette(palette_of(Look::kLight, {}));
    view.resize(900, 400);
    view.show();
  }
  void setMicroBatch(std::int64_t micro_batch) {
    model.setEstimate(std::make_shared<const cost::StepEstimate>(test::fake_estimate(micro_batch)));
  }
  [[nodiscard]] QImage picture() { return view.viewport()->grab().toImage(); }
  void press(Qt::Key key) { QTest::keyClick(&view, key); }

  BreakdownModel model;
  QItemSelectionModel selection;
  BreakdownView view;
};

/// Share of the pixels of `area` that are exactly `colour`.
double share_of(const QImage& image, const QRectF& area, const QColor& colour) {
  const QRect pixels = area.adjusted(2, 2, -3, -2).toRect();
  int hits = 0;
  for (int y = pixels.top(); y <= pixels.bottom(); ++y) {
    for (int x = pixels.left(); x <= pixels.right(); ++x) {
      hits += image.pixelColor(x, y) == colour ? 1 : 0;
    }
  }
  return static_cast<double>(hits) / (pixels.width() * pixels.height());
}

}  // namespace

TEST_CASE("BreakdownView: paints each category in its colour where the geometry says") {
  ViewScene scene(8);
  const Theme theme = theme_of(scene.view.palette());
  const QImage picture = scene.picture();
  const BreakdownGeometry& geometry = scene.view.geometryNow();
  CHECK(share_of(picture, geometry.segment(2, kParameters),
                 theme.of(ir::TensorRole::kParameter).fill) > 0.95);
  CHECK(share_of(picture, geometry.segment(2, kGradients),
                 theme.of(ir::TensorRole::kGradient).fill) > 0.2);
  CHECK(share_of(picture, geometry.segment(2, kActivations),
                 theme.of(ir::TensorRole::kActivation).fill) > 0.2);
  // In the first phase there is nothing but parameters.
  QRectF beyond = geometry.segment(0, kParameters);
  beyond.translate(beyond.width() * 1.5, 0);
  CHECK(share_of(picture, beyond, theme.of(ir::TensorRole::kParameter).fill) == 0);
}

TEST_CASE("BreakdownView: the capacity is a line through every row") {
  ViewScene scene(1);
  const Theme theme = theme_of(scene.view.palette());
  const QImage picture = scene.picture();
  const BreakdownGeometry& geometry = scene.view.geometryNow();
  const auto x = static_cast<int>(geometry.x(scene.model.capacity()));
  for (int row = 0; row < 3; ++row) {
    const auto y = static_cast<int>(geometry.row(row).center().y());
    bool found = false;
    for (int near = x - 2; near <= x + 2; ++near) {
      found = found || picture.pixelColor(near, y) == theme.capacity;
    }
    CHECK(found);
  }
}

TEST_CASE("BreakdownView: another answer is another picture") {
  ViewScene scene(1);
  const QImage before = scene.picture();
  scene.setMicroBatch(40);
  CHECK(scene.picture() != before);
  scene.setMicroBatch(1);
  CHECK(scene.picture() == before);
}

TEST_CASE("BreakdownView: arrows walk through phases and categories, skipping what is not there") {
  ViewScene scene(8);
  scene.press(Qt::Key_Home);
  CHECK(scene.selection.currentIndex() == scene.model.index(0, 0));
  scene.press(Qt::Key_Right);
  CHECK(scene.selection.currentIndex() == scene.model.index(0, kParameters));
  scene.press(Qt::Key_Right);  // Loading has nothing else.
  CHECK(scene.selection.currentIndex() == scene.model.index(0, kParameters));
  scene.press(Qt::Key_Down);
  scene.press(Qt::Key_Right);  // Forward has no gradients.
  CHECK(scene.selection.currentIndex() == scene.model.index(1, kActivations));
  scene.press(Qt::Key_End);
  CHECK(scene.selection.currentIndex() == scene.model.index(2, kActivations));
  scene.press(Qt::Key_Down);
  CHECK(scene.selection.currentIndex() == scene.model.index(2, kActivations));
  for (int i = 0; i < 4; ++i) {
    scene.press(Qt::Key_Left);
  }
  CHECK(scene.selection.currentIndex() == scene.model.index(2, 0));
  scene.press(Qt::Key_Up);
  CHECK(scene.selection.currentIndex() == scene.model.index(1, 0));
}

TEST_CASE("BreakdownView: the current cell is framed, and said to screen readers") {
  ViewScene scene(8);
  const QImage before = scene.picture();
  scene.selection.setCurrentIndex(scene.model.index(2, kActivations),
                                  QItemSelectionModel::ClearAndSelect);
  CHECK(scene.picture() != before);
  CHECK(scene.view.accessibleDescription() ==
        scene.model.index(2, kActivations).data(Qt::AccessibleTextRole).toString());
  scene.setMicroBatch(9);
  CHECK(scene.view.accessibleDescription().contains(QStringLiteral("9.00")));
}

TEST_CASE("BreakdownView: takes the keyboard's focus at the peak") {
  ViewScene scene(8);
  QFocusEvent focus(QEvent::FocusIn, Qt::TabFocusReason);
  QApplication::sendEvent(&scene.view, &focus);
  CHECK(scene.selection.currentIndex() == scene.model.index(2, 0));
}

TEST_CASE("BreakdownView: a click chooses what it hits") {
  ViewScene scene(8);
  const QPoint point = scene.view.geometryNow().segment(2, kGradients).center().toPoint();
  QTest::mouseClick(scene.view.viewport(), Qt::LeftButton, {}, point);
  CHECK(scene.selection.currentIndex() == scene.model.index(2, kGradients));
}

TEST_CASE("BreakdownView: what the mouse is over stands out") {
  ViewScene scene(8);
  const QImage before = scene.picture();
  const QPointF point = scene.view.geometryNow().segment(2, kGradients).center();
  QMouseEvent move(QEvent::MouseMove, point, point, Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QApplication::sendEvent(scene.view.viewport(), &move);
  CHECK(scene.picture() != before);
  QEvent leave(QEvent::Leave);
  QApplication::sendEvent(scene.view.viewport(), &leave);
  CHECK(scene.picture() == before);
}

TEST_CASE("BreakdownView: follows the palette") {
  ViewScene scene(8);
  scene.view.setPalette(palette_of(Look::kDark, {}));
  const Theme theme = theme_of(scene.view.palette());
  REQUIRE(theme.dark);
  CHECK(share_of(scene.picture(), scene.view.geometryNow().segment(2, kParameters),
                 theme.of(ir::TensorRole::kParameter).fill) > 0.95);
}

TEST_CASE("BreakdownView: scrolls to the current phase when there are more than fit") {
  ViewScene scene(1);
  cost::StepEstimate estimate = test::fake_estimate(1);
  estimate.timeline.phases.resize(200, estimate.timeline.phases.back());
  scene.model.setEstimate(std::make_shared<const cost::StepEstimate>(estimate));
  CHECK(scene.view.verticalScrollBar()->maximum() > 0);
  scene.press(Qt::Key_End);
  const BreakdownGeometry& geometry = scene.view.geometryNow();
  CHECK(geometry.row(199).bottom() <= geometry.rows().bottom() + 1);
  CHECK(geometry.row(199).top() >= geometry.rows().top());
  scene.press(Qt::Key_Home);
  CHECK(scene.view.verticalScrollBar()->value() == 0);
}

TEST_CASE("BreakdownView: says so when there is nothing to show") {
  ViewScene scene(1);
  const QImage before = scene.picture();
  scene.model.setEstimate(nullptr);
  CHECK(scene.picture() != before);
  scene.press(Qt::Key_Down);
  CHECK_FALSE(scene.selection.currentIndex().isValid());
}

}  // namespace headroom::gui
