#include "gui/charts/span_chart.h"

#include <cmath>

#include <QApplication>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

namespace headroom::gui {
namespace {

constexpr double kKeyZoom = 1.5;
constexpr double kPage = 0.9;
constexpr double kWheelNotch = 120;  // Eighths of a degree; Qt's documentation of QWheelEvent.

}  // namespace

void SpanChart::setLimits(const ZoomLimits& limits) {
  limits_ = limits;
  span_ = within(span_, limits_);
  Q_EMIT spanChanged();
  update();
}

void SpanChart::setSpan(const ZoomSpan& span) {
  const ZoomSpan shown = within(span, limits_);
  if (shown != span_) {
    span_ = shown;
    Q_EMIT spanChanged();
    update();
  }
}

void SpanChart::zoomIn() {
  setSpan(zoomed(span_, focusPoint(), 1 / kKeyZoom, limits_));
}

void SpanChart::zoomOut() {
  setSpan(zoomed(span_, focusPoint(), kKeyZoom, limits_));
}

double SpanChart::focusPoint() const {
  return (span_.begin + span_.end) / 2;
}

qreal SpanChart::xOf(double value) const {
  const QRectF area = plot();
  return area.left() + (value - span_.begin) / span_.length() * area.width();
}

double SpanChart::valueAt(qreal x) const {
  const QRectF area = plot();
  return span_.begin + (x - area.left()) / std::max<qreal>(1, area.width()) * span_.length();
}

void SpanChart::wheelEvent(QWheelEvent* event) {
  const QPoint turned = event->angleDelta();
  const bool sideways = event->modifiers().testFlag(Qt::ShiftModifier) || turned.x() != 0;
  const double notches = (turned.x() != 0 ? turned.x() : turned.y()) / kWheelNotch;
  if (sideways) {
    setSpan(moved(span_, -notches * span_.length() / 8, limits_));
  } else {
    setSpan(zoomed(span_, valueAt(event->position().x()), std::pow(1.25, -notches), limits_));
  }
  event->accept();
}

void SpanChart::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) {
    return;
  }
  pressed_ = true;
  dragging_ = false;
  pressed_at_ = event->position();
  pressed_span_ = span_;
}

void SpanChart::mouseMoveEvent(QMouseEvent* event) {
  if (pressed_) {
    const qreal moved_by = event->position().x() - pressed_at_.x();
    dragging_ = dragging_ || std::abs(moved_by) >= QApplication::startDragDistance();
    if (dragging_) {
      const double unit = pressed_span_.length() / std::max<qreal>(1, plot().width());
      setSpan(moved(pressed_span_, -moved_by * unit, limits_));
      setCursor(Qt::ClosedHandCursor);
    }
  }
  Q_EMIT pointed(event->position());
}

void SpanChart::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || !pressed_) {
    return;
  }
  pressed_ = false;
  unsetCursor();
  if (!dragging_) {
    clicked(event->position());
  }
}

void SpanChart::leaveEvent(QEvent* event) {
  Chart::leaveEvent(event);
  Q_EMIT pointed({-1, -1});
}

void SpanChart::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal:
      zoomIn();
      break;
    case Qt::Key_Minus:
      zoomOut();
      break;
    case Qt::Key_PageUp:
      setSpan(moved(span_, -kPage * span_.length(), limits_));
      break;
    case Qt::Key_PageDown:
      setSpan(moved(span_, kPage * span_.length(), limits_));
      break;
    case Qt::Key_0:
      showWhole();
      break;
    default:
      Chart::keyPressEvent(event);
      return;
  }
  event->accept();
}

}  // namespace headroom::gui
