#include "gui/charts/scatter_chart.h"

#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "gui/charts/axis.h"
#include "gui/charts/part_style.h"
#include "gui/models/words.h"

namespace headroom::gui {

ScatterChart::ScatterChart(const PlanTableModel* model, QWidget* parent)
    : Chart(parent), model_(model) {
  setAccessibleName(tr("Plans found: tokens per second over peak memory"));
  connect(model, &QAbstractItemModel::modelReset, this, [this] {
    chosen_.reset();
    hovered_ = -1;
    layOut();
    update();
  });
}

QSize ScatterChart::minimumSizeHint() const {
  return {fontMetrics().height() * 20, fontMetrics().height() * 12};
}

void ScatterChart::setPresent(std::optional<Present> present) {
  present_ = present;
  layOut();
  update();
}

void ScatterChart::layOut() {
  legend_.clear();
  for (std::size_t i = 0; i < model_->runtimes().size(); ++i) {
    legend_.push_back({.name = QString::fromStdString(model_->runtimes()[i]),
                       .style = numbered_style(theme(), i),
                       .sign = LegendEntry::Sign::kDot});
  }
  const qreal margin = em() * 0.6;
  legend_area_ = QRectF(margin, margin / 2, width() - 2 * margin, 0);
  legend_area_.setHeight(draw_legend(nullptr, legend_, theme(), legend_area_, font()));
  const qreal left = em() * 4.4;
  const qreal top = legend_area_.bottom() + em() * 1.4;
  plot_ = QRectF(left, top, std::max<qreal>(1, width() - left - em() * 1.2),
                 std::max<qreal>(1, height() - top - em() * 3));
  most_bytes_ = static_cast<double>(model_->capacity().value()) * 1.08;
  most_tokens_ = 1;
  for (const PlanTableModel::Row& row : model_->rows()) {
    most_bytes_ = std::max(most_bytes_, static_cast<double>(row.rated.peak.value()) * 1.05);
    most_tokens_ = std::max(most_tokens_, row.tokens_per_second * 1.1);
  }
  if (present_) {
    most_bytes_ = std::max(most_bytes_, static_cast<double>(present_->peak.value()) * 1.05);
    most_tokens_ = std::max(most_tokens_, present_->tokens_per_second * 1.1);
  }
}

QPointF ScatterChart::at(Bytes peak, double tokens) const {
  return {plot_.left() + static_cast<double>(peak.value()) / most_bytes_ * plot_.width(),
          plot_.bottom() - tokens / most_tokens_ * plot_.height()};
}

QPointF ScatterChart::placeOf(int row) const {
  const PlanTableModel::Row& one = model_->rows()[static_cast<std::size_t>(row)];
  return at(one.rated.peak, one.tokens_per_second);
}

void ScatterChart::drawAxes(QPainter& painter) const {
  const ByteScale scale = scale_for(Bytes{static_cast<std::int64_t>(most_bytes_)});
  const auto unit = static_cast<double>(scale.factor);
  const qreal capacity = at(model_->capacity(), 0).x();
  QColor beyond = theme().capacity;
  beyond.setAlphaF(0.1F);
  painter.fillRect(QRectF(QPointF(capacity, plot_.top()), plot_.bottomRight()), beyond);
  for (const double tick : round_ticks(0, most_bytes_ / unit, plot_.width() / (em() * 5))) {
    const qreal x = plot_.left() + tick * unit / most_bytes_ * plot_.width();
    painter.setPen(QPen(theme().grid, 1));
    painter.drawLine(QPointF(x, plot_.top()), QPointF(x, plot_.bottom()));
    painter.setPen(theme().quiet_text);
    painter.drawText(QRectF(x - em() * 3, plot_.bottom() + em() * 0.2, em() * 6, em()),
                     Qt::AlignCenter, QLocale().toString(tick));
  }
  for (const double tick : round_ticks(0, most_tokens_, plot_.height() / (em() * 3))) {
    const qreal y = plot_.bottom() - tick / most_tokens_ * plot_.height();
    painter.setPen(QPen(theme().grid, 1));
    painter.drawLine(QPointF(plot_.left(), y), QPointF(plot_.right(), y));
    painter.setPen(theme().quiet_text);
    painter.drawText(QRectF(0, y - em() / 2, plot_.left() - em() * 0.4, em()),
                     Qt::AlignRight | Qt::AlignVCenter, QLocale().toString(tick, 'g', 6));
  }
  painter.drawText(QRectF(plot_.left(), plot_.bottom() + em() * 1.4, plot_.width(), em() * 1.2),
                   Qt::AlignCenter, tr("peak allocated, %1").arg(scale.unit));
  painter.drawText(QRectF(em() * 0.4, plot_.top() - em() * 1.3, plot_.width(), em() * 1.1),
                   Qt::AlignLeft | Qt::AlignVCenter, tr("tokens/s"));
  painter.setPen(QPen(theme().capacity, 2));
  painter.drawLine(QPointF(capacity, plot_.top()), QPointF(capacity, plot_.bottom()));
  painter.drawText(
      QRectF(plot_.left(), plot_.top() - em() * 1.3, capacity - plot_.left(), em() * 1.1),
      Qt::AlignRight | Qt::AlignVCenter, tr("capacity %1").arg(bytes_text(model_->capacity())));
}

void ScatterChart::drawFront(QPainter& painter) const {
  std::vector<QPointF> front;
  for (const PlanTableModel::Row& row : model_->rows()) {
    if (row.on_front) {
      front.push_back(at(row.rated.peak, row.tokens_per_second));
    }
  }
  std::ranges::sort(front, {}, [](const QPointF& place) { return place.x(); });
  painter.setPen(QPen(theme().outline, 1, Qt::DashLine));
  painter.drawPolyline(front.data(), static_cast<int>(front.size()));
}

void ScatterChart::drawMark(QPainter& painter, const QPointF& place, std::size_t runtime,
                            qreal size) const {
  // The framework is a shape, too: circle, square, diamond, triangle.
  constexpr std::size_t kShapes = 4;
  switch (runtime % kShapes) {
    case 0:
      painter.drawEllipse(place, size, size);
      return;
    case 1:
      painter.drawRect(QRectF(place.x() - size, place.y() - size, 2 * size, 2 * size));
      return;
    case 2:
      painter.drawPolygon(
          QPolygonF({place + QPointF(0, -1.3 * size), place + QPointF(1.3 * size, 0),
                     place + QPointF(0, 1.3 * size), place + QPointF(-1.3 * size, 0)}));
      return;
    default:
      painter.drawPolygon(
          QPolygonF({place + QPointF(0, -1.2 * size), place + QPointF(1.2 * size, size),
                     place + QPointF(-1.2 * size, size)}));
  }
}

void ScatterChart::draw(QPainter& painter) {
  if (model_->rows().empty()) {
    drawEmpty(painter, tr("Press Search to look for plans"));
    return;
  }
  draw_legend(&painter, legend_, theme(), legend_area_, font());
  drawAxes(painter);
  painter.setRenderHint(QPainter::Antialiasing);
  drawFront(painter);
  const qreal size = em() * 0.36;
  for (int i = 0; i < model_->rowCount(); ++i) {
    const PlanTableModel::Row& row = model_->rows()[static_cast<std::size_t>(i)];
    const std::size_t runtime = model_->runtimeOf(row);
    painter.setBrush(numbered_style(theme(), runtime).fill);
    painter.setPen(chosen_ == i ? focusPen() : QPen(palette().color(QPalette::Base), 1));
    const bool marked = row.best || chosen_ == i || hovered_ == i;
    drawMark(painter, placeOf(i), runtime, marked ? size * 1.5 : size);
    if (row.best) {
      painter.setPen(theme().text);
      const QPointF place = placeOf(i);
      const bool left = place.x() > plot_.center().x();
      painter.drawText(QRectF(left ? place.x() - em() * 6.8 : place.x() + em() * 0.8,
                              place.y() - em() / 2, em() * 6, em()),
                       Qt::AlignVCenter | (left ? Qt::AlignRight : Qt::AlignLeft), tr("best"));
    }
  }
  if (present_) {
    const QPointF place = at(present_->peak, present_->tokens_per_second);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme().text, 2));
    painter.drawEllipse(place, size * 1.8, size * 1.8);
    const bool left = place.x() > plot_.center().x();
    painter.drawText(QRectF(left ? place.x() - em() * 7 : place.x() + em(), place.y() + em() * 0.3,
                            em() * 6, em()),
                     Qt::AlignVCenter | (left ? Qt::AlignRight : Qt::AlignLeft), tr("on screen"));
  }
}

std::optional<int> ScatterChart::rowAt(const QPointF& place) const {
  std::optional<int> nearest;
  qreal least = em() * 0.8;
  for (int row = 0; row < model_->rowCount(); ++row) {
    const QPointF way = place - placeOf(row);
    const qreal distance = std::hypot(way.x(), way.y());
    if (distance < least) {
      least = distance;
      nearest = row;
    }
  }
  return nearest;
}

void ScatterChart::setChosen(std::optional<int> row) {
  if (chosen_ != row) {
    chosen_ = row;
    if (row) {
      setAccessibleDescription(model_->sentence(model_->rows()[static_cast<std::size_t>(*row)]));
    }
    update();
  }
}

bool ScatterChart::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    const auto row = rowAt(QPointF(help->pos()));
    QToolTip::showText(
        help->globalPos(),
        row ? model_->sentence(model_->rows()[static_cast<std::size_t>(*row)]) : QString(), this);
    return true;
  }
  return Chart::event(event);
}

void ScatterChart::mousePressEvent(QMouseEvent* event) {
  if (const auto row = rowAt(event->position()); row && event->button() == Qt::LeftButton) {
    setChosen(row);
    Q_EMIT chosen(*row);
  }
}

void ScatterChart::mouseDoubleClickEvent(QMouseEvent* event) {
  if (const auto row = rowAt(event->position())) {
    Q_EMIT loadRequested(*row);
  }
}

void ScatterChart::mouseMoveEvent(QMouseEvent* event) {
  const int row = rowAt(event->position()).value_or(-1);
  if (row != hovered_) {
    hovered_ = row;
    update();
    Q_EMIT hovered(row);
  }
}

void ScatterChart::keyPressEvent(QKeyEvent* event) {
  const int count = model_->rowCount();
  const int step = event->key() == Qt::Key_Right ? 1 : (event->key() == Qt::Key_Left ? -1 : 0);
  if (count > 0 && step != 0) {
    const int next = chosen_ ? std::clamp(*chosen_ + step, 0, count - 1) : 0;
    setChosen(next);
    Q_EMIT chosen(next);
  } else if (chosen_ && (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)) {
    Q_EMIT loadRequested(*chosen_);
  } else {
    Chart::keyPressEvent(event);
  }
}

}  // namespace headroom::gui
