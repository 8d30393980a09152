#include "gui/views/breakdown_geometry.h"

#include <QFont>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

using test::kActivations;
using test::kGradients;
using test::kParameters;

struct GeometryScene {
  explicit GeometryScene(std::int64_t micro_batch, QSizeF size = QSizeF(800, 400)) {
    model.setEstimate(std::make_shared<const cost::StepEstimate>(test::fake_estimate(micro_batch)));
    geometry = std::make_unique<BreakdownGeometry>(model, QFontMetricsF(QFont()), size);
  }
  BreakdownModel model;
  std::unique_ptr<BreakdownGeometry> geometry;
};

}  // namespace

TEST_CASE("BreakdownGeometry: a bar's parts follow each other and are as long as their bytes") {
  const GeometryScene scene(8);
  const BreakdownGeometry& geometry = *scene.geometry;
  const QRectF parameters = geometry.segment(2, kParameters);
  const QRectF gradients = geometry.segment(2, kGradients);
  const QRectF activations = geometry.segment(2, kActivations);
  CHECK(parameters.left() == doctest::Approx(geometry.plot().left()));
  CHECK(gradients.left() == doctest::Approx(parameters.right()));
  CHECK(activations.left() == doctest::Approx(gradients.right()));
  CHECK(activations.right() == doctest::Approx(geometry.x(Bytes{40 * kGiB})));
  CHECK(activations.width() == doctest::Approx(parameters.width() / 2));
  // Reserved beyond the tensors: 1 GiB, right behind them.
  const QRectF reserved = geometry.segment(2, BreakdownModel::kReservedColumn);
  CHECK(reserved.left() == doctest::Approx(activations.right()));
  CHECK(reserved.width() == doctest::Approx(parameters.width() / 16));
}

TEST_CASE("BreakdownGeometry: the capacity is in the picture, whether the plan fits or not") {
  for (const std::int64_t micro_batch : {1, 500}) {
    const GeometryScene scene(micro_batch);
    const qreal capacity = scene.geometry->x(scene.model.capacity());
    CHECK(capacity > scene.geometry->plot().left());
    CHECK(capacity < scene.geometry->plot().right());
    CHECK(scene.geometry->segment(2, kActivations).right() <= scene.geometry->plot().right());
  }
}

TEST_CASE("BreakdownGeometry: what is painted at a point is what is picked there") {
  const GeometryScene scene(8);
  const BreakdownGeometry& geometry = *scene.geometry;
  for (int row = 0; row < scene.model.rowCount(); ++row) {
    for (int column = kParameters; column < scene.model.columnCount(); ++column) {
      const QRectF area = geometry.segment(row, column);
      if (area.width() > 0) {
        CHECK(geometry.indexAt(area.center()) == scene.model.index(row, column));
      }
    }
    CHECK(geometry.indexAt(geometry.label(row).center()) == scene.model.index(row, 0));
  }
  CHECK_FALSE(geometry.indexAt(geometry.axis().center()).isValid());
  CHECK_FALSE(geometry.indexAt(QPointF(-1, -1)).isValid());
}

TEST_CASE("BreakdownGeometry: scrolling moves rows and picking alike") {
  GeometryScene scene(8, QSizeF(800, 130));  // Too low for all rows.
  BreakdownGeometry& geometry = *scene.geometry;
  const QPointF point = geometry.segment(0, kParameters).center();
  CHECK(geometry.indexAt(point).row() == 0);
  geometry.setScrolled(geometry.rowHeight());
  CHECK(geometry.indexAt(point).row() == 1);
  CHECK(geometry.firstVisible() == 1);
}

TEST_CASE("BreakdownGeometry: only rows in sight are visible ones") {
  BreakdownModel model;
  cost::StepEstimate estimate = test::fake_estimate(1);
  estimate.timeline.phases.resize(1000, estimate.timeline.phases.back());
  model.setEstimate(std::make_shared<const cost::StepEstimate>(estimate));
  BreakdownGeometry geometry(model, QFontMetricsF(QFont()), QSizeF(800, 400));
  geometry.setScrolled(500 * geometry.rowHeight());
  CHECK(geometry.firstVisible() == 500);
  CHECK(geometry.lastVisible() - geometry.firstVisible() <
        400 / static_cast<int>(geometry.rowHeight()) + 2);
  CHECK(geometry.contentHeight() == doctest::Approx(1000 * geometry.rowHeight()));
}

TEST_CASE("BreakdownGeometry: ticks are round numbers, rise evenly and stay in the plot") {
  const GeometryScene scene(1);
  const auto& ticks = scene.geometry->ticks();
  REQUIRE(ticks.size() >= 4);
  CHECK(ticks[0].bytes == Bytes{0});
  for (std::size_t i = 1; i < ticks.size(); ++i) {
    CHECK(ticks[i].bytes - ticks[i - 1].bytes == ticks[1].bytes);
    CHECK(ticks[i].bytes.value() % (5 * kGiB) == 0);
    CHECK(ticks[i].x <= scene.geometry->plot().right());
  }
}

TEST_CASE("BreakdownGeometry: the legend names every category and reserved, inside any width") {
  for (const int width : {250, 400, 1200}) {
    const GeometryScene scene(1, QSizeF(width, 400));
    const auto& legend = scene.geometry->legend();
    CHECK(legend.size() == 4);
    CHECK(legend.back().column == BreakdownModel::kReservedColumn);
    for (const auto& entry : legend) {
      CHECK(entry.swatch.right() <= width);
      CHECK(entry.swatch.bottom() <= scene.geometry->rows().top());
    }
  }
}

TEST_CASE("BreakdownGeometry: an empty model and an empty size are harmless") {
  const BreakdownModel none;
  const BreakdownGeometry empty(none, QFontMetricsF(QFont()), QSizeF(800, 400));
  CHECK(empty.ticks().empty());
  CHECK_FALSE(empty.indexAt(QPointF(10, 200)).isValid());
  const GeometryScene flat(1, QSizeF(0, 0));
  CHECK(flat.geometry->lastVisible() <= 1);
  CHECK(BreakdownGeometry::idealHeight(flat.model, QFontMetricsF(QFont()), 800) >
        3 * flat.geometry->rowHeight());
}

}  // namespace headroom::gui
