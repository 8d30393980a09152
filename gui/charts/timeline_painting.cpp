// The painting of the timeline; its behaviour is in timeline_chart.cpp.
#include <algorithm>
#include <cmath>

#include <QLocale>
#include <QPainter>

#include "gui/charts/axis.h"
#include "gui/charts/timeline_chart.h"

namespace headroom::gui {
namespace {

QString step_text(const ir::PhaseName& name) {
  return name.at.step > 0 ? TimelineChart::tr("step %1").arg(name.at.step) : QString();
}

QString short_phase_text(const ir::PhaseName& name) {
  const std::string_view words = ir::words_of(name);
  QString text = QString::fromUtf8(words.data(), static_cast<qsizetype>(words.size()));
  if (name.at.micro_batch > 0) {
    text += QLatin1Char(' ') + QString::number(name.at.micro_batch);
  }
  return text;
}

}  // namespace

std::vector<TimelineChart::Column> TimelineChart::columns(const ZoomSpan& span,
                                                          const QRectF& area) const {
  const auto count = static_cast<std::size_t>(std::max<qreal>(1, area.width()));
  const double unit = span.length() / static_cast<double>(count);
  const std::size_t events = data_->history.size();
  std::vector<Column> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double from = span.begin + static_cast<double>(i) * unit;
    const std::size_t begin = std::min(static_cast<std::size_t>(std::max(from, 0.0)), events - 1);
    const auto until = static_cast<std::size_t>(std::max(from + unit, 0.0));
    const std::size_t end = std::clamp(until, begin + 1, events);
    Column column{.x = std::floor(area.left()) + static_cast<qreal>(i),
                  .extremes = data_->history.over(begin, end),
                  .roles = {}};
    const bool same = !all.empty() && all.back().extremes.peak == column.extremes.peak;
    column.roles = same ? all.back().roles : data_->history.roles(column.extremes.peak);
    all.push_back(column);
  }
  return all;
}

void TimelineChart::draw(QPainter& painter) {
  if (data_ == nullptr) {
    drawEmpty(painter, tr("Nothing to show yet"));
    return;
  }
  draw_legend(&painter, legend_, theme(), legend_area_, font());
  drawOverview(painter);
  drawAxis(painter);
  const std::vector<Column> shown = columns(span(), plot_);
  painter.save();
  painter.setClipRect(plot_.adjusted(0, -1, 0, 1));
  drawAreas(painter, shown);
  drawReserved(painter, shown);
  painter.restore();
  drawCapacity(painter);
  drawPhases(painter);
  drawMeasured(painter);
  drawPinned(painter);
  drawMoment(painter);
  drawPeak(painter);
  drawPointer(painter);
}

void TimelineChart::drawOverview(QPainter& painter) {
  const qreal ratio = painter.device()->devicePixelRatioF();
  const QSize pixels = (overview_.size() * ratio).toSize();
  if (overview_picture_.size() != pixels) {
    overview_picture_ = QImage(pixels, QImage::Format_ARGB32_Premultiplied);
    overview_picture_.setDevicePixelRatio(ratio);
    overview_picture_.fill(palette().color(QPalette::Base));
    QPainter inner(&overview_picture_);
    const QRectF area(QPointF(0, 0), overview_.size());
    const double most = std::max(1.0, static_cast<double>(data_->history.whole().most.value()));
    for (const Column& column : columns(limits().whole, area)) {
      const double share = static_cast<double>(column.extremes.most.value()) / most;
      inner.fillRect(
          QRectF(column.x, area.bottom() - share * area.height(), 1, share * area.height()),
          theme().quiet_text);
    }
  }
  painter.drawImage(overview_.topLeft(), overview_picture_);
  const double whole = limits().whole.length();
  const double from = overview_.left() + span().begin / whole * overview_.width();
  const double until = overview_.left() + span().end / whole * overview_.width();
  QColor shade = palette().color(QPalette::Base);
  shade.setAlphaF(0.65F);
  painter.fillRect(QRectF(overview_.topLeft(), QPointF(from, overview_.bottom())), shade);
  painter.fillRect(QRectF(QPointF(until, overview_.top()), overview_.bottomRight()), shade);
  painter.setPen(QPen(focusPen().color(), 1));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(
      QRectF(from, overview_.top() - 1, std::max(2.0, until - from), overview_.height() + 2));
}

void TimelineChart::drawAxis(QPainter& painter) const {
  const auto unit = static_cast<double>(scale_.factor);
  painter.setPen(theme().quiet_text);
  painter.drawText(QRectF(0, plot_.top() - em() * 1.3, plot_.left() + em(), em()),
                   Qt::AlignVCenter | Qt::AlignLeft, QLatin1Char(' ') + scale_.unit);
  for (const double tick : round_ticks(0, top_ / unit, plot_.height() / (em() * 2.4))) {
    const qreal y = plot_.bottom() - tick * unit / top_ * plot_.height();
    painter.setPen(QPen(theme().grid, 1));
    painter.drawLine(QPointF(plot_.left(), y), QPointF(plot_.right(), y));
    painter.setPen(theme().quiet_text);
    painter.drawText(QRectF(0, y - em() / 2, plot_.left() - em() * 0.4, em()),
                     Qt::AlignVCenter | Qt::AlignRight, QLocale().toString(tick));
  }
}

void TimelineChart::makeTiles(qreal ratio) {
  if (tile_ratio_ == ratio) {
    return;
  }
  tile_ratio_ = ratio;
  tiles_.clear();
  for (const ir::TensorRole role : roles_) {
    tiles_.push_back(series_tile(theme().of(role), pitch(), ratio));
  }
}

// The areas are written pixel by pixel: thousands of narrow rectangles with a pattern would take a
// painter several times as long.
void TimelineChart::drawAreas(QPainter& painter, const std::vector<Column>& columns) {
  const qreal ratio = painter.device()->devicePixelRatioF();
  makeTiles(ratio);
  const QPointF origin(columns.front().x, std::floor(plot_.top()));
  const auto wide = static_cast<int>(static_cast<qreal>(columns.size()) * ratio);
  const auto high = static_cast<int>(std::ceil((plot_.bottom() - origin.y()) * ratio));
  QImage image(wide, high, QImage::Format_ARGB32_Premultiplied);
  image.fill(Qt::transparent);
  auto* const pixels = reinterpret_cast<QRgb*>(image.bits());
  const auto stride = static_cast<std::ptrdiff_t>(image.bytesPerLine() / 4);
  for (int x = 0; x < wide; ++x) {
    const auto at = static_cast<std::size_t>(static_cast<qreal>(x) / ratio);
    const Column& column = columns[std::min(at, columns.size() - 1)];
    Bytes sum;
    int below = high;
    for (std::size_t series = 0; series < roles_.size(); ++series) {
      sum += column.roles.at(static_cast<std::size_t>(roles_[series]));
      const auto edge = static_cast<int>(std::lround((yOf(sum) - origin.y()) * ratio));
      const int top = std::clamp(edge, 0, below);
      const QImage& tile = tiles_[series];
      const auto* const source = reinterpret_cast<const QRgb*>(tile.constBits());
      const auto source_stride = static_cast<std::ptrdiff_t>(tile.bytesPerLine() / 4);
      const int across = x % tile.width();
      int down = top % tile.height();
      for (int y = top; y < below; ++y) {
        pixels[y * stride + x] = source[down * source_stride + across];
        down = down + 1 == tile.height() ? 0 : down + 1;
      }
      below = top;
    }
  }
  image.setDevicePixelRatio(ratio);
  painter.drawImage(origin, image);
}

void TimelineChart::drawReserved(QPainter& painter, const std::vector<Column>& columns) const {
  QList<QPointF> line;
  line.reserve(static_cast<qsizetype>(columns.size()) * 2);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const qreal y = std::round(yOf(columns[i].extremes.reserved)) + 0.5;
    const bool bends = i == 0 || i + 1 == columns.size() || y != line.back().y();
    if (bends) {
      if (i > 0) {
        line.append({columns[i].x, line.back().y()});
      }
      line.append({columns[i].x, y});
    }
  }
  if (!line.isEmpty()) {
    line.append({plot_.right(), line.back().y()});
  }
  painter.setPen(QPen(theme().text, 1.5));
  painter.drawPolyline(line.constData(), static_cast<int>(line.size()));
}

void TimelineChart::drawCapacity(QPainter& painter) const {
  const Bytes capacity = data_->estimate->capacity;
  const qreal y = std::round(yOf(capacity)) + 0.5;
  const QString name = tr("capacity %1").arg(bytes_text(capacity));
  painter.setPen(QPen(theme().capacity, 2));
  if (y < plot_.top()) {
    painter.drawText(QRectF(plot_.left(), plot_.top() - em() * 1.15, plot_.width(), em()),
                     Qt::AlignVCenter | Qt::AlignRight, name + QLatin1Char(' ') + QChar(0x2191));
    return;
  }
  QColor beyond = theme().capacity;
  beyond.setAlphaF(0.12F);
  painter.fillRect(QRectF(plot_.topLeft(), QPointF(plot_.right(), y)), beyond);
  painter.drawLine(QPointF(plot_.left(), y), QPointF(plot_.right(), y));
  // The name is above the line where there is room, on a ground of its own.
  const qreal wide = QFontMetricsF(font()).horizontalAdvance(name) + em() * 0.6;
  const bool above = y - em() * 1.2 > overview_.bottom();
  const QRectF place(plot_.right() - wide, above ? y - em() * 1.15 : y + em() * 0.1, wide, em());
  QColor ground = palette().color(QPalette::Base);
  ground.setAlphaF(0.85F);
  painter.fillRect(place, ground);
  painter.drawText(place, Qt::AlignCenter, name);
}

void TimelineChart::drawPhases(QPainter& painter) const {
  const std::vector<ir::Phase>& all = data_->estimate->program.phases;
  const QFontMetricsF metrics(font());
  const auto box = [&](const QRectF& row, const EventRange& events, const QString& name) {
    const qreal left = std::max(xOf(static_cast<double>(events.begin)), row.left());
    const qreal right = std::min(xOf(static_cast<double>(events.end)), row.right());
    if (right - left < 2) {
      return;
    }
    const QRectF area(left, row.top() + 1, right - left, row.height() - 1);
    painter.setPen(QPen(theme().grid, 1));
    painter.drawLine(area.topLeft(), area.bottomLeft());
    painter.drawLine(area.topRight(), area.bottomRight());
    const qreal room = area.width() - em() * 0.4;
    if (room > em() * 1.2) {
      painter.setPen(theme().quiet_text);
      painter.drawText(area, Qt::AlignCenter, metrics.elidedText(name, Qt::ElideRight, room));
    }
  };
  std::size_t first =
      phase_of(data_->estimate->program, static_cast<std::size_t>(std::max(0.0, span().begin)));
  while (first > 0 && all[first - 1].name.at.step == all[first].name.at.step) {
    --first;  // A step's name is in the middle of the whole step.
  }
  std::size_t step = first;
  for (std::size_t i = first; i < all.size(); ++i) {
    box(phases_, {.begin = all[i].begin, .end = all[i].end}, short_phase_text(all[i].name));
    const bool ends = i + 1 == all.size() || all[i + 1].name.at.step != all[i].name.at.step;
    if (ends) {
      box(steps_, {.begin = all[step].begin, .end = all[i].end}, step_text(all[i].name));
      step = i + 1;
      if (static_cast<double>(all[i].end) > span().end) {
        break;
      }
    }
  }
  painter.setPen(QPen(theme().grid, 1));
  painter.drawLine(plot_.bottomLeft(), plot_.bottomRight());
  painter.drawLine(phases_.bottomLeft(), phases_.bottomRight());
}

void TimelineChart::drawMeasured(QPainter& painter) const {
  painter.save();
  painter.setClipRect(plot_);
  for (const MeasuredPeak& peak : measured_) {
    for (const ir::Phase& phase : data_->estimate->program.phases) {
      if (phase.name != peak.phase) {
        continue;
      }
      const qreal left = xOf(static_cast<double>(phase.begin));
      const qreal right = xOf(static_cast<double>(phase.end));
      const qreal y = std::round(yOf(peak.allocated)) + 0.5;
      painter.setPen(QPen(palette().color(QPalette::Base), 4));
      painter.drawLine(QPointF(left, y), QPointF(right, y));
      painter.setPen(QPen(theme().of(ir::TensorRole::kInput).fill, 2, Qt::DashLine));
      painter.drawLine(QPointF(left, y), QPointF(right, y));
    }
  }
  painter.restore();
}

void TimelineChart::drawPinned(QPainter& painter) const {
  if (pinned_ == nullptr) {
    return;
  }
  const ir::RankProgram& now = data_->estimate->program;
  const ir::RankProgram& before = pinned_->estimate->program;
  const std::size_t events = pinned_->history.size();
  QPolygonF line;
  const auto finish = [&painter, &line, this] {
    for (const bool ground : {true, false}) {
      painter.setPen(ground ? QPen(palette().color(QPalette::Base), 3.5)
                            : QPen(focusPen().color(), 2, Qt::DashLine));
      painter.drawPolyline(line);
    }
    line.clear();
  };
  painter.save();
  painter.setClipRect(plot_);
  const auto width = static_cast<int>(plot_.width());
  for (int column = 0; column < width; ++column) {
    const qreal x = plot_.left() + column;
    const auto from = same_place(now, before, std::max(0.0, valueAt(x)));
    if (!from) {
      finish();  // The pinned run has no such phase.
      continue;
    }
    const auto until = same_place(now, before, std::max(0.0, valueAt(x + 1)));
    const auto begin = std::min(static_cast<std::size_t>(std::max(*from, 0.0)), events - 1);
    const auto end = std::clamp(static_cast<std::size_t>(std::max(until.value_or(*from), 0.0)),
                                begin + 1, events);
    line.append(QPointF(x, std::round(yOf(pinned_->history.over(begin, end).most)) + 0.5));
  }
  finish();
  painter.restore();
}

void TimelineChart::drawPeak(QPainter& painter) const {
  const std::size_t peak = data_->history.whole().peak;
  const auto at = static_cast<double>(peak);
  if (at < span().begin || at > span().end) {
    return;
  }
  const QPointF place = placeOf(peak);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(palette().color(QPalette::Base), 1));
  painter.setBrush(theme().text);
  const qreal side = em() * 0.4;
  painter.drawPolygon(
      QPolygonF({place, place + QPointF(-side, -side * 1.4), place + QPointF(side, -side * 1.4)}));
  painter.restore();

  const QString text = tr("peak %1: %2")
                           .arg(bytes_text(data_->history.whole().most),
                                QString::fromStdString(data_->estimate->peak_moment));
  QFont bold = font();
  bold.setBold(true);
  const QFontMetricsF metrics(bold);
  const qreal room = plot_.width() - em();
  const QString shown = metrics.elidedText(text, Qt::ElideRight, room);
  const qreal wide = std::min(metrics.horizontalAdvance(shown) + em() * 0.8, plot_.width());
  const qreal left =
      std::clamp(place.x() - wide / 2, plot_.left(), std::max(plot_.left(), plot_.right() - wide));
  const bool above = place.y() - em() * 2.2 > plot_.top();
  const QRectF label(left, above ? place.y() - em() * 2.1 : place.y() + em() * 0.4, wide,
                     em() * 1.35);
  QColor ground = palette().color(QPalette::Base);
  ground.setAlphaF(0.88F);
  painter.fillRect(label, ground);
  painter.setPen(QPen(theme().grid, 1));
  painter.drawRect(label);
  painter.setPen(theme().text);
  painter.setFont(bold);
  painter.drawText(label, Qt::AlignCenter, shown);
  painter.setFont(font());
}

void TimelineChart::drawMoment(QPainter& painter) const {
  if (!moment_) {
    return;
  }
  const qreal x = xOf(static_cast<double>(*moment_) + 0.5);
  if (x < plot_.left() || x > plot_.right()) {
    return;
  }
  painter.setPen(QPen(focusPen().color(), 2));
  painter.drawLine(QPointF(x, plot_.top()), QPointF(x, phases_.bottom()));
}

void TimelineChart::drawPointer(QPainter& painter) const {
  if (pointer_) {
    painter.setPen(QPen(theme().text, 1, Qt::DotLine));
    painter.drawLine(QPointF(*pointer_, plot_.top()), QPointF(*pointer_, phases_.bottom()));
  }
}

}  // namespace headroom::gui
