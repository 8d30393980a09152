#include "gui/charts/gantt_chart.h"

#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QLocale>
#include <QPainter>
#include <QToolTip>

#include "gui/charts/axis.h"
#include "gui/models/words.h"

namespace headroom::gui {
namespace {

/// The bar that takes most of the time from the first bar in [first, last) on, with the time that
/// all of them take. Bars of one series count together.
GanttBar most_of(const std::vector<GanttBar>& bars, std::size_t first, std::size_t last,
                 std::size_t series) {
  std::vector<double> times(series);
  for (std::size_t i = first; i < last; ++i) {
    times[bars[i].series] += bars[i].end - bars[i].begin;
  }
  GanttBar most = bars[first];
  most.end = bars[last - 1].end;
  most.series = static_cast<std::uint16_t>(std::ranges::max_element(times) - times.begin());
  return most;
}

}  // namespace

GanttChart::GanttChart(QWidget* parent) : SpanChart(parent) {
  connect(this, &SpanChart::spanChanged, this, [this] { update(); });
}

QSize GanttChart::sizeHint() const {
  const auto rows = data_ != nullptr ? static_cast<int>(data_->rows.size()) : 2;
  const int em_height = fontMetrics().height();
  constexpr int kAround = 6;  // Lines of text for legend, axis and margins.
  return {em_height * 50, em_height * (kAround + 2 * rows)};
}

QSize GanttChart::minimumSizeHint() const {
  const auto rows = data_ != nullptr ? static_cast<int>(data_->rows.size()) : 1;
  constexpr int kAround = 5;
  constexpr int kMostRows = 8;  // More scroll no further: they become thin.
  return {fontMetrics().height() * 20,
          fontMetrics().height() * (kAround + std::min(rows, kMostRows))};
}

void GanttChart::setData(std::shared_ptr<const GanttData> shown, const QString& reason) {
  const double before = data_ != nullptr ? data_->length : 0;
  const bool was_whole = data_ == nullptr || span() == limits().whole;
  const ZoomSpan kept = span();
  data_ = std::move(shown);
  reason_ = reason;
  chosen_.reset();
  if (data_ != nullptr) {
    setLimits({.whole = {.begin = 0, .end = std::max(data_->length, 1e-9)},
               .shortest = std::min(1e-5, data_->length)});
    const double scale = before > 0 ? data_->length / before : 1;
    was_whole ? showWhole() : setSpan({.begin = kept.begin * scale, .end = kept.end * scale});
  }
  layOut();
  updateGeometry();
  update();
  Q_EMIT chosenChanged();
}

void GanttChart::layOut() {
  legend_.clear();
  brushes_.clear();
  if (data_ == nullptr) {
    return;
  }
  for (const GanttSeries& series : data_->series) {
    if (!series.name.isEmpty()) {
      legend_.push_back(
          {.name = series.name,
           .style = series.style,
           .sign = series.waiting ? LegendEntry::Sign::kWaiting : LegendEntry::Sign::kFill});
    }
    brushes_.push_back(series_brush(series.style, pitch(), devicePixelRatioF()));
  }
  qreal names = em() * 2;
  for (const GanttRow& row : data_->rows) {
    names = std::max(names, QFontMetricsF(font()).horizontalAdvance(row.name) + em());
  }
  names = std::min(names, width() * 0.25);
  const qreal margin = em() * 0.6;
  legend_area_ = QRectF(margin, margin / 2, width() - 2 * margin, 0);
  legend_area_.setHeight(draw_legend(nullptr, legend_, theme(), legend_area_, font()));
  const qreal top = legend_area_.bottom() + margin;
  legend_area_.setHeight(std::min(legend_area_.height(), height() * 0.4));
  plot_ = QRectF(margin + names, top, std::max<qreal>(1, width() - names - 2 * margin),
                 std::max<qreal>(1, height() - top - em() * 1.8));
  const auto rows = std::max<std::size_t>(1, data_->rows.size());
  row_height_ = std::min(em() * 2.6, plot_.height() / static_cast<qreal>(rows));
  plot_.setHeight(row_height_ * static_cast<qreal>(rows));
}

QRectF GanttChart::rowArea(std::size_t row) const {
  const qreal gap = std::min(em() * 0.3, row_height_ * 0.15);
  return {plot_.left(), plot_.top() + static_cast<qreal>(row) * row_height_ + gap, plot_.width(),
          row_height_ - 2 * gap};
}

void GanttChart::draw(QPainter& painter) {
  if (data_ == nullptr) {
    drawEmpty(painter, reason_.isEmpty() ? tr("Nothing to show yet") : reason_);
    return;
  }
  draw_legend(&painter, legend_, theme(), legend_area_, font());
  drawAxis(painter);
  for (std::size_t row = 0; row < data_->rows.size(); ++row) {
    drawRow(painter, row);
  }
  if (chosen_) {
    const GanttBar& bar = data_->rows[chosen_->row].bars[chosen_->bar];
    QRectF area = rowArea(chosen_->row);
    area.setLeft(std::max(xOf(bar.begin), plot_.left()));
    area.setRight(std::min(std::max(xOf(bar.end), area.left() + 2), plot_.right()));
    if (area.width() > 0) {
      painter.setBrush(Qt::NoBrush);
      painter.setPen(focusPen());
      painter.drawRect(area.adjusted(-1, -1, 1, 1));
    }
  }
}

void GanttChart::drawAxis(QPainter& painter) const {
  const bool in_seconds = span().length() >= 10;
  const double unit = in_seconds ? 1 : (span().length() >= 1e-3 ? 1e-3 : 1e-6);
  const QString name = in_seconds ? tr("s") : (unit == 1e-3 ? tr("ms") : tr("µs"));
  for (const double tick :
       round_ticks(span().begin / unit, span().end / unit, plot_.width() / (em() * 6))) {
    const qreal x = xOf(tick * unit);
    painter.setPen(QPen(theme().grid, 1));
    painter.drawLine(QPointF(x, plot_.top()), QPointF(x, plot_.bottom()));
    painter.setPen(theme().quiet_text);
    painter.drawText(QRectF(x - em() * 3, plot_.bottom() + em() * 0.2, em() * 6, em()),
                     Qt::AlignCenter, QLocale().toString(tick) + QChar(QChar::Nbsp) + name);
  }
}

void GanttChart::drawBar(QPainter& painter, const QRectF& area, const GanttBar& bar) const {
  const GanttSeries& series = data_->series[bar.series];
  if (series.waiting) {
    QColor tint = series.style.fill;
    tint.setAlphaF(0.25F);
    painter.fillRect(area, tint);
    if (area.width() > 3) {
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(series.style.fill, 1, Qt::DashLine));
      painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5));
    }
  } else {
    painter.fillRect(area, brushes_[bar.series]);
  }
  if (area.width() < em() * 3 || !data_->label) {
    return;
  }
  const QFontMetricsF metrics(font());
  const QString text =
      metrics.elidedText(data_->label(bar), Qt::ElideRight, area.width() - em() * 0.8);
  const qreal wide = metrics.horizontalAdvance(text) + em() * 0.4;
  QColor ground = palette().color(QPalette::Base);
  ground.setAlphaF(0.82F);
  const QRectF label(area.center().x() - wide / 2, area.center().y() - em() * 0.55, wide,
                     em() * 1.1);
  if (label.height() <= area.height() + 4 && !text.isEmpty()) {
    painter.fillRect(label, ground);
    painter.setPen(theme().text);
    painter.drawText(label, Qt::AlignCenter, text);
  }
}

void GanttChart::drawRow(QPainter& painter, std::size_t row) const {
  const GanttRow& line = data_->rows[row];
  const QRectF area = rowArea(row);
  painter.setPen(theme().text);
  const qreal room = row_height_ < em() * 0.8 ? 0 : plot_.left() - em();
  painter.drawText(QRectF(em() * 0.4, area.top(), room, area.height()),
                   Qt::AlignVCenter | Qt::AlignRight,
                   QFontMetricsF(font()).elidedText(line.name, Qt::ElideMiddle, room));
  QColor ground = theme().grid;
  ground.setAlphaF(0.35F);
  painter.fillRect(area, ground);
  painter.save();
  painter.setClipRect(plot_);
  const auto& bars = line.bars;
  auto first = static_cast<std::size_t>(
      std::ranges::upper_bound(bars, span().begin, {}, &GanttBar::end) - bars.begin());
  while (first < bars.size() && bars[first].begin < span().end) {
    // Bars that begin in one pixel and end in it are painted as one.
    const qreal left = xOf(bars[first].begin);
    const qreal pixel = std::floor(left) + 1;
    std::size_t last = first + 1;
    while (last < bars.size() && xOf(bars[last - 1].end) < pixel && xOf(bars[last].end) < pixel) {
      ++last;
    }
    const GanttBar bar =
        last - first > 1 ? most_of(bars, first, last, data_->series.size()) : bars[first];
    const qreal right = std::max(xOf(bar.end), left + 1);
    QRectF place(std::max(left, plot_.left() - 2), area.top(), 0, area.height());
    place.setRight(std::min(right, plot_.right() + 2));
    if (place.width() > 4) {
      place.setRight(place.right() - 0.75);  // A gap between neighbours.
    }
    drawBar(painter, place, bar);
    first = last;
  }
  painter.restore();
}

std::optional<GanttChart::Place> GanttChart::placeAt(const QPointF& point) const {
  if (data_ == nullptr || !plot_.contains(point)) {
    return std::nullopt;
  }
  const auto row = static_cast<std::size_t>((point.y() - plot_.top()) / row_height_);
  if (row >= data_->rows.size()) {
    return std::nullopt;
  }
  const std::vector<GanttBar>& bars = data_->rows[row].bars;
  const double time = valueAt(point.x());
  const auto found = std::ranges::upper_bound(bars, time, {}, &GanttBar::end);
  if (found == bars.end() || found->begin > time) {
    return std::nullopt;
  }
  return Place{.row = row, .bar = static_cast<std::size_t>(found - bars.begin())};
}

QString GanttChart::textOf(const Place& place) const {
  const GanttRow& row = data_->rows[place.row];
  return data_->sentence ? data_->sentence(row, row.bars[place.bar]) : row.name;
}

void GanttChart::choose(const Place& place) {
  chosen_ = place;
  const GanttBar& bar = data_->rows[place.row].bars[place.bar];
  setSpan(showing(showing(span(), bar.end, limits()), bar.begin, limits()));
  setAccessibleDescription(textOf(place));
  update();
  Q_EMIT chosenChanged();
}

void GanttChart::clicked(const QPointF& place) {
  if (const auto found = placeAt(place)) {
    choose(*found);
  }
}

bool GanttChart::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    const auto place = placeAt(QPointF(help->pos()));
    QToolTip::showText(help->globalPos(), place ? textOf(*place) : QString(), this);
    return true;
  }
  return SpanChart::event(event);
}

void GanttChart::moveAlong(int step) {
  if (!chosen_) {
    for (std::size_t row = 0; row < data_->rows.size(); ++row) {
      if (!data_->rows[row].bars.empty()) {
        choose({.row = row, .bar = 0});
        return;
      }
    }
    return;
  }
  const auto count = static_cast<int>(data_->rows[chosen_->row].bars.size());
  const int next = std::clamp(static_cast<int>(chosen_->bar) + step, 0, count - 1);
  choose({.row = chosen_->row, .bar = static_cast<std::size_t>(next)});
}

void GanttChart::moveAcross(int step) {
  if (!chosen_) {
    moveAlong(0);
    return;
  }
  const double time = data_->rows[chosen_->row].bars[chosen_->bar].begin;
  auto row = static_cast<int>(chosen_->row) + step;
  for (; row >= 0 && row < static_cast<int>(data_->rows.size()); row += step) {
    const std::vector<GanttBar>& bars = data_->rows[static_cast<std::size_t>(row)].bars;
    if (!bars.empty()) {
      const auto found = std::ranges::upper_bound(bars, time, {}, &GanttBar::end);
      const auto bar = std::min<std::ptrdiff_t>(found - bars.begin(),
                                                static_cast<std::ptrdiff_t>(bars.size()) - 1);
      choose({.row = static_cast<std::size_t>(row), .bar = static_cast<std::size_t>(bar)});
      return;
    }
  }
}

void GanttChart::keyPressEvent(QKeyEvent* event) {
  if (data_ == nullptr) {
    SpanChart::keyPressEvent(event);
    return;
  }
  switch (event->key()) {
    case Qt::Key_Left:
      moveAlong(-1);
      break;
    case Qt::Key_Right:
      moveAlong(1);
      break;
    case Qt::Key_Up:
      moveAcross(-1);
      break;
    case Qt::Key_Down:
      moveAcross(1);
      break;
    default:
      SpanChart::keyPressEvent(event);
      return;
  }
  event->accept();
}

}  // namespace headroom::gui
