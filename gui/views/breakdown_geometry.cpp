#include "gui/views/breakdown_geometry.h"

#include <algorithm>
#include <cmath>

namespace headroom::gui {
namespace {

constexpr qreal kCaptionLines = 1.3;

// Height of a row in lines of text. Rows use the available room within these bounds.
constexpr qreal kLeastRow = 1.75;
constexpr qreal kMostRow = 2.4;

/// The smallest step of 1, 2 or 5 times a power of ten that cuts `range` into at most `count`
/// parts.
double nice_step(double range, double count) {
  const double least = range / std::max(count, 1.0);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) {
      return factor * power;
    }
  }
  return 10 * power;
}

qreal widest(const BreakdownModel& model, const QFontMetricsF& metrics, int column) {
  qreal width = 0;
  for (int row = 0; row < model.rowCount(); ++row) {
    const QString text = model.index(row, column).data().toString();
    width = std::max(width, metrics.horizontalAdvance(text));
  }
  return width;
}

}  // namespace

BreakdownGeometry::BreakdownGeometry(const BreakdownModel& model, const QFontMetricsF& metrics,
                                     const QSizeF& size)
    : model_(&model),
      metrics_(metrics),
      em_(metrics.height()),
      row_height_(std::ceil(metrics.height() * kLeastRow)) {
  const qreal top = layOutLegend(size.width()) + em_ * kCaptionLines;
  const qreal axis_height = em_ * 1.8;
  rows_ = QRectF(0, top, size.width(), std::max<qreal>(0, size.height() - top - axis_height));
  if (model.rowCount() > 0) {
    row_height_ = std::clamp(std::floor(rows_.height() / model.rowCount()), row_height_,
                             std::ceil(em_ * kMostRow));
  }
  // The peak is drawn in bold, which is wider than these font metrics say.
  const qreal labels =
      std::min(widest(model, metrics, BreakdownModel::kPhaseColumn) * 1.15 + em_, size.width() / 3);
  const qreal totals = widest(model, metrics, BreakdownModel::kPeakColumn) * 1.15 + em_;
  plot_ = rows_.adjusted(margin() + labels, 0, -margin() - totals, 0);
  axis_ = QRectF(plot_.left(), rows_.bottom(), plot_.width(), axis_height);
  layOutAxis();
}

qreal BreakdownGeometry::layOutLegend(qreal width) {
  const qreal line = em_ * 1.5;
  const qreal side = em_ * 0.85;
  qreal x = margin();
  qreal y = margin() / 2;
  for (int column = BreakdownModel::kReservedColumn; column < model_->columnCount(); ++column) {
    // Reserved memory is the last entry of the legend, as it is the last part of the bar.
    const int next =
        column + 1 < model_->columnCount() ? column + 1 : +BreakdownModel::kReservedColumn;
    const QString name = next == BreakdownModel::kReservedColumn
                             ? BreakdownModel::tr("reserved, not allocated")
                             : model_->headerData(next, Qt::Horizontal, Qt::DisplayRole).toString();
    const qreal needed = side * 1.5 + metrics_.horizontalAdvance(name) + em_ * 1.2;
    if (x > margin() && x + needed - em_ > width - margin()) {
      x = margin();
      y += line;
    }
    legend_.push_back(
        {.column = next,
         .swatch = QRectF(x, y + (line - side) / 2, side, side),
         .baseline = QPointF(x + side * 1.5, y + (line - em_) / 2 + metrics_.ascent())});
    x += needed;
  }
  return y + line + em_ * 0.4;
}

void BreakdownGeometry::layOutAxis() {
  const double largest = static_cast<double>(model_->largest().value());
  if (largest <= 0 || plot_.width() <= 0) {
    return;
  }
  scale_end_ = largest * 1.02;
  const auto unit = static_cast<double>(model_->scale().factor);
  const double step = nice_step(scale_end_ / unit, plot_.width() / (em_ * 4)) * unit;
  for (int i = 0; i * step <= scale_end_; ++i) {
    const Bytes bytes{std::llround(i * step)};
    ticks_.push_back({.x = x(bytes), .bytes = bytes});
  }
}

qreal BreakdownGeometry::contentHeight() const {
  return row_height_ * model_->rowCount();
}

QRectF BreakdownGeometry::caption() const {
  return {rows_.left(), rows_.top() - em_ * kCaptionLines, rows_.width(), em_ * kCaptionLines};
}

qreal BreakdownGeometry::x(Bytes bytes) const {
  return plot_.left() + plot_.width() * static_cast<double>(bytes.value()) / scale_end_;
}

QRectF BreakdownGeometry::row(int row) const {
  return {rows_.left(), rows_.top() - scrolled_ + row * row_height_, rows_.width(), row_height_};
}

QRectF BreakdownGeometry::label(int row) const {
  QRectF area = this->row(row);
  area.setLeft(margin());
  area.setRight(plot_.left() - em_ / 2);
  return area;
}

QRectF BreakdownGeometry::total(int row) const {
  QRectF area = this->row(row);
  area.setLeft(plot_.right() + em_ / 4);
  area.setRight(rows_.right() - margin());
  return area;
}

QRectF BreakdownGeometry::totalsTitle() const {
  const QRectF strip = caption();
  return {plot_.right() - em_ * 6, strip.top(), rows_.right() - margin() - plot_.right() + em_ * 6,
          strip.height()};
}

QRectF BreakdownGeometry::segment(int row, int column) const {
  if (column == BreakdownModel::kPhaseColumn || column == BreakdownModel::kPeakColumn) {
    return this->row(row);
  }
  Bytes begin{0};
  if (column == BreakdownModel::kReservedColumn) {
    begin = std::min(bytes(row, BreakdownModel::kPeakColumn), bytes(row, column));
  }
  for (int before = BreakdownModel::kFirstCategoryColumn; before < column; ++before) {
    begin += bytes(row, before);
  }
  const Bytes end =
      column == BreakdownModel::kReservedColumn ? bytes(row, column) : begin + bytes(row, column);
  const qreal inset = std::round(row_height_ * 0.16);
  const QRectF whole = this->row(row);
  return {x(begin), whole.top() + inset, x(end) - x(begin), whole.height() - 2 * inset};
}

int BreakdownGeometry::firstVisible() const {
  return std::clamp(static_cast<int>(scrolled_ / row_height_), 0, model_->rowCount());
}

int BreakdownGeometry::lastVisible() const {
  const auto last = static_cast<int>(std::ceil((scrolled_ + rows_.height()) / row_height_));
  return std::clamp(last, firstVisible(), model_->rowCount());
}

QModelIndex BreakdownGeometry::indexAt(const QPointF& point) const {
  if (!rows_.contains(point)) {
    return {};
  }
  const int row = static_cast<int>((point.y() - rows_.top() + scrolled_) / row_height_);
  if (row < 0 || row >= model_->rowCount()) {
    return {};
  }
  for (int column = BreakdownModel::kReservedColumn; column < model_->columnCount(); ++column) {
    if (segment(row, column).contains(point)) {
      return model_->index(row, column);
    }
  }
  return model_->index(row, BreakdownModel::kPhaseColumn);
}

qreal BreakdownGeometry::idealHeight(const BreakdownModel& model, const QFontMetricsF& metrics,
                                     qreal width) {
  const BreakdownGeometry any(model, metrics, QSizeF(width, 0));
  return any.rows_.top() + any.contentHeight() + any.axis_.height();
}

Bytes BreakdownGeometry::bytes(int row, int column) const {
  return Bytes{model_->index(row, column).data(BreakdownModel::kBytesRole).toLongLong()};
}

}  // namespace headroom::gui
