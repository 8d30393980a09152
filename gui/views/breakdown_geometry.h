#pragma once

#include <vector>

#include <QFontMetricsF>
#include <QPoint>
#include <QPointF>
#include <QRectF>
#include <QSizeF>

#include "gui/models/breakdown_model.h"

namespace headroom::gui {

/// The positions of the parts of a breakdown in a viewport, in logical pixels. Painting and hit
/// testing both use this class, so that they always agree.
///
///   +--------------------------------------------------+
///   | legend: one swatch and name per category          |
///   +---------+---------------------capacity---+-------+
///   | phase   | bar                   |capacity |  peak |  <- scrolls
///   +---------+--------------------------------+-------+
///   |         | axis                            |       |
///   +--------------------------------------------------+
class BreakdownGeometry {
 public:
  /// Describes the present `model`. It must be constructed again if model, font or size changes.
  BreakdownGeometry(const BreakdownModel& model, const QFontMetricsF& metrics, const QSizeF& size);

  /// Scrolls the rows up by `pixels`.
  void setScrolled(qreal pixels) { scrolled_ = pixels; }

  struct LegendEntry {
    int column = 0;
    QRectF swatch;
    QPointF baseline;  ///< Baseline of the name.
  };
  struct Tick {
    qreal x = 0;
    Bytes bytes;
  };

  [[nodiscard]] const std::vector<LegendEntry>& legend() const { return legend_; }
  [[nodiscard]] const std::vector<Tick>& ticks() const { return ticks_; }
  /// The part of the viewport with the rows.
  [[nodiscard]] const QRectF& rows() const { return rows_; }
  /// The part of `rows` in which bars are drawn, from 0 to the end of the scale.
  [[nodiscard]] const QRectF& plot() const { return plot_; }
  [[nodiscard]] const QRectF& axis() const { return axis_; }
  /// The strip above `plot` with the name of the capacity line.
  [[nodiscard]] QRectF caption() const;
  /// The part of that strip above the totals.
  [[nodiscard]] QRectF totalsTitle() const;
  /// The distance between the viewport's edge and its contents.
  [[nodiscard]] qreal margin() const { return em_ * 0.7; }

  [[nodiscard]] qreal rowHeight() const { return row_height_; }
  /// Height of all rows, visible or not.
  [[nodiscard]] qreal contentHeight() const;
  [[nodiscard]] qreal x(Bytes bytes) const;
  [[nodiscard]] QRectF row(int row) const;
  [[nodiscard]] QRectF label(int row) const;
  [[nodiscard]] QRectF total(int row) const;
  /// The part of the bar for a category. For the reserved column, it is the memory reserved beyond
  /// tensors.
  [[nodiscard]] QRectF segment(int row, int column) const;
  /// Rows that are at least partly visible, as the range [first, last).
  [[nodiscard]] int firstVisible() const;
  [[nodiscard]] int lastVisible() const;
  /// The cell at `point`: a segment or the phase. Invalid outside the rows.
  [[nodiscard]] QModelIndex indexAt(const QPointF& point) const;

  /// The height that shows everything without scrolling in a viewport of `width`.
  [[nodiscard]] static qreal idealHeight(const BreakdownModel& model, const QFontMetricsF& metrics,
                                         qreal width);

 private:
  [[nodiscard]] qreal layOutLegend(qreal width);
  void layOutAxis();
  [[nodiscard]] Bytes bytes(int row, int column) const;

  const BreakdownModel* model_;
  QFontMetricsF metrics_;
  qreal em_;
  qreal row_height_;
  qreal scrolled_ = 0;
  qreal scale_end_ = 1;  ///< Bytes at the right end of `plot_`.
  std::vector<LegendEntry> legend_;
  std::vector<Tick> ticks_;
  QRectF rows_;
  QRectF plot_;
  QRectF axis_;
};

}  // namespace headroom::gui
