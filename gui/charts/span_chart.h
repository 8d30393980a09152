#pragma once

#include <QPointF>
#include <QWheelEvent>

#include "gui/charts/chart.h"
#include "gui/charts/zoom_span.h"

namespace headroom::gui {

/// A chart with a horizontal axis of which a part is visible. The wheel and the keys + and - zoom,
/// dragging, a horizontal wheel, Page Up and Page Down pan, 0 shows everything.
class SpanChart : public Chart {
  Q_OBJECT

 public:
  using Chart::Chart;

  [[nodiscard]] const ZoomSpan& span() const { return span_; }
  /// Shows `span`, or as much of it as the limits allow.
  void setSpan(const ZoomSpan& span);
  void showWhole() { setSpan(limits_.whole); }
  void zoomIn();
  void zoomOut();

 Q_SIGNALS:
  void spanChanged();
  /// Emitted when the mouse is over another place of the chart; (-1, -1) when it leaves.
  void pointed(const QPointF& place);

 protected:
  /// The part of the widget over which the axis extends.
  [[nodiscard]] virtual QRectF plot() const = 0;
  /// The place that zooming by keys keeps; by default the middle of what is visible.
  [[nodiscard]] virtual double focusPoint() const;
  /// A click that is not a drag.
  virtual void clicked(const QPointF& place) = 0;

  void setLimits(const ZoomLimits& limits);
  [[nodiscard]] const ZoomLimits& limits() const { return limits_; }
  [[nodiscard]] qreal xOf(double value) const;
  [[nodiscard]] double valueAt(qreal x) const;

  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  ZoomLimits limits_;
  ZoomSpan span_;
  QPointF pressed_at_;
  ZoomSpan pressed_span_;
  bool pressed_ = false;
  bool dragging_ = false;
};

}  // namespace headroom::gui
