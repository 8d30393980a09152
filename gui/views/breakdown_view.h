#pragma once

#include <QAbstractScrollArea>
#include <QItemSelectionModel>
#include <QPersistentModelIndex>

#include "gui/theme/palette.h"
#include "gui/views/breakdown_geometry.h"

namespace headroom::gui {

/// The breakdown as a bar chart: a row per phase, a segment per category, and the capacity as a
/// line. It shares model and current cell with the table. Arrow keys move between phases and
/// categories, Home and End to the first and last phase.
class BreakdownView : public QAbstractScrollArea {
  Q_OBJECT

 public:
  /// The view owns neither; both must outlive it.
  BreakdownView(BreakdownModel* model, QItemSelectionModel* selection, QWidget* parent = nullptr);

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;
  /// The present geometry, for callers that point at a part of the view.
  [[nodiscard]] const BreakdownGeometry& geometryNow() const { return geometry_; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;
  bool viewportEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  void refresh();
  void followCurrent(const QModelIndex& current);
  struct Cell {
    int row = 0;
    int column = 0;
  };
  enum class Step : std::uint8_t { kForward, kBack };

  /// Makes `cell` the current one. A row outside the model is clamped.
  void moveTo(const Cell& cell);
  /// The next cell of the row that has a segment in the bar. After the last one it is `from` again,
  /// before the first one the phase.
  [[nodiscard]] Cell nextCategory(const Cell& from, Step step) const;
  void setHovered(const QModelIndex& index);

  void drawLegend(QPainter& painter) const;
  void drawAxis(QPainter& painter) const;
  void drawRow(QPainter& painter, int row) const;
  void drawBar(QPainter& painter, int row) const;
  void drawCapacity(QPainter& painter) const;
  void drawFocus(QPainter& painter) const;
  void drawEmpty(QPainter& painter) const;
  [[nodiscard]] qreal pitch() const;

  BreakdownModel* model_;
  QItemSelectionModel* selection_;
  Theme theme_;
  BreakdownGeometry geometry_;
  QPersistentModelIndex hovered_;
};

}  // namespace headroom::gui
