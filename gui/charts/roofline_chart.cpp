#include "gui/charts/roofline_chart.h"

#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "gui/charts/part_style.h"

namespace headroom::gui {
namespace {

QString power_text(int power) {
  constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  const auto prefix = static_cast<std::size_t>(std::clamp(power / 3, 0, 5));
  return QLocale().toString(std::pow(10, power - 3 * static_cast<int>(prefix))) +
         QLatin1String(kPrefixes.at(prefix));
}

}  // namespace

RooflineChart::RooflineChart(const OperatorModel* model, QWidget* parent)
    : Chart(parent), model_(model) {
  setAccessibleName(tr("Roofline of the step's operators"));
  connect(model, &QAbstractItemModel::modelReset, this, [this] {
    chosen_.reset();
    layOut();
    update();
  });
}

QSize RooflineChart::minimumSizeHint() const {
  return {fontMetrics().height() * 16, fontMetrics().height() * 9};
}

QPointF RooflineChart::at(double intensity, double rate) const {
  const double x =
      (std::log10(intensity) - least_intensity_) / (most_intensity_ - least_intensity_);
  const double y = (std::log10(rate) - least_rate_) / (most_rate_ - least_rate_);
  return {plot_.left() + x * plot_.width(), plot_.bottom() - y * plot_.height()};
}

void RooflineChart::layOut() {
  dots_.clear();
  const auto& timed = model_->timeData();
  if (timed == nullptr || timed->roofs.flops_per_second <= 0) {
    return;
  }
  const double ridge = timed->roofs.flops_per_second / timed->roofs.bytes_per_second;
  least_intensity_ = std::log10(ridge) - 1.5;
  most_intensity_ = std::log10(ridge) + 1.5;
  most_rate_ = std::log10(timed->roofs.flops_per_second) + 0.45;
  least_rate_ = most_rate_ - 2.2;
  double longest = 1e-12;
  for (const cost::OperatorTime& one : timed->operators) {
    if (one.flops > 0 && one.bytes > 0 && one.time > Seconds{}) {
      longest = std::max(longest, one.time.value());
      least_intensity_ = std::min(least_intensity_, std::log10(one.flops / one.bytes) - 0.2);
      most_intensity_ = std::max(most_intensity_, std::log10(one.flops / one.bytes) + 0.2);
      least_rate_ = std::min(least_rate_, std::log10(flops_rate(one)) - 0.3);
    }
  }
  const qreal left = em() * 4.4;
  plot_ = QRectF(left, em() * 0.8, std::max<qreal>(1, width() - left - em()),
                 std::max<qreal>(1, height() - em() * 3.6));
  for (int row = 0; row < model_->rowCount(); ++row) {
    const cost::OperatorTime& one = timed->operators[static_cast<std::size_t>(row)];
    if (const auto place = placeOf(row)) {
      const double share = std::sqrt(one.time.value() / longest);
      dots_.push_back({.row = row, .place = *place, .radius = std::max(3.0, share * em() * 1.1)});
    }
  }
  std::ranges::stable_sort(dots_, std::ranges::greater{}, &Dot::radius);
}

std::optional<QPointF> RooflineChart::placeOf(int row) const {
  const cost::OperatorTime& one = model_->timeData()->operators[static_cast<std::size_t>(row)];
  if (one.flops <= 0 || one.bytes <= 0 || one.time <= Seconds{}) {
    return std::nullopt;
  }
  return at(one.flops / one.bytes, flops_rate(one));
}

void RooflineChart::drawRoofs(QPainter& painter) const {
  const Roofs& roofs = model_->timeData()->roofs;
  painter.setPen(theme().quiet_text);
  for (int power = static_cast<int>(std::ceil(least_rate_)); power <= most_rate_; ++power) {
    const qreal y = at(1, std::pow(10, power)).y();
    painter.setPen(QPen(theme().grid, 1));
    painter.drawLine(QPointF(plot_.left(), y), QPointF(plot_.right(), y));
    painter.setPen(theme().quiet_text);
    painter.drawText(QRectF(0, y - em() / 2, plot_.left() - em() * 0.4, em()),
                     Qt::AlignRight | Qt::AlignVCenter, power_text(power));
  }
  for (int power = static_cast<int>(std::ceil(least_intensity_)); power <= most_intensity_;
       ++power) {
    const qreal x = at(std::pow(10, power), 1).x();
    painter.setPen(QPen(theme().grid, 1));
    painter.drawLine(QPointF(x, plot_.top()), QPointF(x, plot_.bottom()));
    painter.setPen(theme().quiet_text);
    painter.drawText(QRectF(x - em() * 2, plot_.bottom() + em() * 0.2, em() * 4, em()),
                     Qt::AlignCenter, power_text(power));
  }
  painter.drawText(QRectF(plot_.left(), plot_.bottom() + em() * 1.4, plot_.width(), em()),
                   Qt::AlignCenter, tr("FLOPs per byte of device memory"));
  painter.save();
  painter.translate(em() * 0.7, plot_.center().y());
  painter.rotate(-90);
  painter.drawText(QRectF(-plot_.height() / 2, -em() / 2, plot_.height(), em()), Qt::AlignCenter,
                   tr("FLOP/s"));
  painter.restore();

  const double ridge = roofs.flops_per_second / roofs.bytes_per_second;
  const double first = std::pow(10, least_intensity_);
  const QPointF corner = at(ridge, roofs.flops_per_second);
  painter.save();
  painter.setClipRect(plot_);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(theme().text, 2));
  painter.drawLine(at(first, first * roofs.bytes_per_second), corner);
  painter.drawLine(corner, QPointF(plot_.right(), corner.y()));
  painter.restore();
  painter.setPen(theme().text);
  painter.drawText(
      QRectF(plot_.left(), corner.y() - em() * 1.5, plot_.width(), em()),
      Qt::AlignRight | Qt::AlignVCenter,
      tr("%1 TFLOP/s, %2")
          .arg(QLocale().toString(roofs.flops_per_second / 1e12, 'f', 0), roofs.product_type));
  const QString memory =
      tr("%1 GB/s").arg(QLocale().toString(roofs.bytes_per_second / 1e9, 'f', 0));
  const QPointF along = at(ridge / 8, roofs.bytes_per_second * ridge / 8);
  const qreal wide = QFontMetricsF(font()).horizontalAdvance(memory);
  painter.drawText(QRectF(along.x() + em() * 0.6, along.y(), wide + 2, em()),
                   Qt::AlignLeft | Qt::AlignVCenter, memory);
}

void RooflineChart::draw(QPainter& painter) {
  const auto& timed = model_->timeData();
  if (timed == nullptr || dots_.empty()) {
    drawEmpty(painter, tr("No products to show"));
    return;
  }
  drawRoofs(painter);
  painter.setRenderHint(QPainter::Antialiasing);
  for (const Dot& dot : dots_) {
    const cost::OperatorTime& one = timed->operators[static_cast<std::size_t>(dot.row)];
    QColor fill = part_style(theme(), one.part).fill;
    fill.setAlphaF(0.75F);
    painter.setBrush(fill);
    painter.setPen(chosen_ == dot.row ? focusPen() : QPen(palette().color(QPalette::Base), 1));
    painter.drawEllipse(dot.place, dot.radius, dot.radius);
  }
  // The longest operators are named, the others by the mouse and in the table.
  constexpr std::size_t kNamed = 5;
  const QPointF corner = at(timed->roofs.flops_per_second / timed->roofs.bytes_per_second,
                            timed->roofs.flops_per_second);
  std::vector<QRectF> taken = {
      // The name of the roof.
      QRectF(plot_.left(), corner.y() - em() * 1.5, plot_.width(), em() * 1.2)};
  painter.setPen(theme().text);
  const QFontMetricsF metrics(font());
  for (std::size_t i = 0; i < std::min(kNamed, dots_.size()); ++i) {
    const Dot& dot = dots_[i];
    const QString name = operator_name_text(timed->operators[static_cast<std::size_t>(dot.row)]);
    const qreal wide = metrics.horizontalAdvance(name);
    QRectF label(dot.place.x() + dot.radius + em() * 0.3, dot.place.y() - em() / 2, wide + 1, em());
    if (label.right() > plot_.right()) {
      label.moveRight(dot.place.x() - dot.radius - em() * 0.3);
    }
    const bool free = std::ranges::none_of(
        taken, [&label](const QRectF& other) { return other.intersects(label); });
    if (free) {
      painter.drawText(label, Qt::AlignCenter, name);
      taken.push_back(label);
    }
  }
}

std::optional<int> RooflineChart::rowAt(const QPointF& place) const {
  std::optional<int> found;
  for (const Dot& dot : dots_) {  // Smaller dots lie above larger ones.
    const QPointF way = place - dot.place;
    if (std::hypot(way.x(), way.y()) <= dot.radius + 2) {
      found = dot.row;
    }
  }
  return found;
}

void RooflineChart::setChosen(std::optional<int> row) {
  if (chosen_ != row) {
    chosen_ = row;
    if (row) {
      setAccessibleDescription(model_->index(*row, 0).data(Qt::AccessibleTextRole).toString());
    }
    update();
  }
}

bool RooflineChart::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    const auto row = rowAt(QPointF(help->pos()));
    QToolTip::showText(help->globalPos(),
                       row ? model_->index(*row, 0).data(Qt::ToolTipRole).toString() : QString(),
                       this);
    return true;
  }
  return Chart::event(event);
}

void RooflineChart::mousePressEvent(QMouseEvent* event) {
  if (const auto row = rowAt(event->position()); row && event->button() == Qt::LeftButton) {
    setChosen(row);
    Q_EMIT chosen(*row);
  }
}

void RooflineChart::keyPressEvent(QKeyEvent* event) {
  const bool forward = event->key() == Qt::Key_Right;
  if (dots_.empty() || (!forward && event->key() != Qt::Key_Left)) {
    Chart::keyPressEvent(event);
    return;
  }
  const auto now =
      std::ranges::find_if(dots_, [this](const Dot& dot) { return chosen_ == dot.row; });
  std::size_t next = 0;
  if (now != dots_.end()) {
    const auto at_dot = static_cast<std::size_t>(now - dots_.begin());
    next = forward ? std::min(at_dot + 1, dots_.size() - 1) : (at_dot > 0 ? at_dot - 1 : 0);
  }
  setChosen(dots_[next].row);
  Q_EMIT chosen(dots_[next].row);
}

}  // namespace headroom::gui
