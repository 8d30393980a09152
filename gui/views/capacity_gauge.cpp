#include "gui/views/capacity_gauge.h"

#include <algorithm>

#include <QPainter>
#include <QPainterPath>

#include "gui/models/words.h"
#include "gui/theme/pattern.h"

namespace headroom::gui {

CapacityGauge::CapacityGauge(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setObjectName(QStringLiteral("gauge"));
}

void CapacityGauge::show(const cost::StepEstimate& estimate, const QColor& colour,
                         Bytes pinned_peak) {
  shown_ = true;
  outside_ = estimate.outside_bytes;
  reserved_ = estimate.peak_reserved;
  total_ = estimate.device_total;
  pinned_ = pinned_peak;
  colour_ = colour;
  const QString text = tr("%1 outside the allocator and %2 reserved at the peak, of %3")
                           .arg(bytes_text(outside_), bytes_text(reserved_), bytes_text(total_));
  setToolTip(text);
  setAccessibleName(text);
  update();
}

void CapacityGauge::clear() {
  shown_ = false;
  setToolTip({});
  update();
}

QSize CapacityGauge::sizeHint() const {
  return {fontMetrics().height() * 20, fontMetrics().height() * 5 / 4};
}

/// The whole width is the device, or what the run takes if that is more.
qreal CapacityGauge::at(Bytes bytes) const {
  const Bytes whole = std::max({total_, outside_ + reserved_, outside_ + pinned_, Bytes{1}});
  return width() * static_cast<double>(bytes.value()) / static_cast<double>(whole.value());
}

void CapacityGauge::paintEvent(QPaintEvent* /*event*/) {
  if (!shown_) {
    return;
  }
  const Theme theme = theme_of(palette());
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF bar = QRectF(rect()).adjusted(0.5, 3.5, -0.5, -3.5);
  QPainterPath outline;
  outline.addRoundedRect(bar, bar.height() / 3, bar.height() / 3);
  painter.fillPath(outline, palette().color(QPalette::Base));
  painter.setClipPath(outline);
  QColor faint = colour_;
  faint.setAlphaF(0.45F);
  const QRectF outside(bar.left(), bar.top(), at(outside_), bar.height());
  painter.fillRect(outside, theme.grid);
  fill_series(painter, outside,
              {.fill = theme.grid, .ink = theme.outline, .pattern = Pattern::kRising},
              fontMetrics().height() / 3.0);
  painter.fillRect(QRectF(outside.right(), bar.top(), at(reserved_), bar.height()), colour_);
  if (outside_ + reserved_ > total_) {  // The missing bytes.
    const QRectF missing(at(total_), bar.top(), bar.right() - at(total_), bar.height());
    fill_series(
        painter, missing,
        {.fill = colour_, .ink = palette().color(QPalette::Base), .pattern = Pattern::kFalling},
        fontMetrics().height() / 3.0);
  }
  painter.setClipping(false);
  painter.setPen(QPen(theme.outline, 1));
  painter.drawPath(outline);
  painter.setPen(QPen(theme.capacity, 2));
  const qreal mark = std::min(at(total_), width() - 1.0);
  painter.drawLine(QPointF(mark, 0), QPointF(mark, height()));
  if (pinned_ > Bytes{0}) {
    painter.setPen(QPen(theme.text, 1.5, Qt::DotLine));
    const qreal pin = at(outside_ + pinned_);
    painter.drawLine(QPointF(pin, 0), QPointF(pin, height()));
  }
}

}  // namespace headroom::gui
