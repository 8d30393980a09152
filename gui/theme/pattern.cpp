#include "gui/theme/pattern.h"

#include <cmath>

#include <QLineF>
#include <QList>
#include <QPainter>
#include <QPen>

namespace headroom::gui {
namespace {

struct Strokes {
  bool rising = false;
  bool falling = false;
  bool horizontal = false;
  bool vertical = false;
  qreal pitch = 1;  ///< In units of the caller's.
};

Strokes strokes_of(Pattern pattern) {
  switch (pattern) {
    case Pattern::kPlain:
    case Pattern::kDots:
      return {};
    case Pattern::kRising:
      return {.rising = true};
    case Pattern::kFalling:
      return {.falling = true};
    case Pattern::kDiagonalGrid:
      return {.rising = true, .falling = true, .pitch = 1.4};
    case Pattern::kHorizontal:
      return {.horizontal = true, .pitch = 0.8};
    case Pattern::kVertical:
      return {.vertical = true, .pitch = 0.8};
    case Pattern::kGrid:
      return {.horizontal = true, .vertical = true};
    case Pattern::kWideRising:
      return {.rising = true, .pitch = 2.4};
    case Pattern::kWideFalling:
      return {.falling = true, .pitch = 2.4};
    case Pattern::kWideVertical:
      return {.vertical = true, .pitch = 2};
  }
  return {};
}

/// Lines `y = ±x + k pitch` that cross `area`, upwards or downwards on the screen.
void add_diagonals(QList<QLineF>& lines, const QRectF& area, qreal pitch, qreal slope) {
  const qreal height = area.height();
  const qreal low = slope > 0 ? area.left() - area.bottom() : area.left() + area.top();
  const qreal high = slope > 0 ? area.right() - area.top() : area.right() + area.bottom();
  for (qreal k = std::floor(low / pitch) * pitch; k <= high; k += pitch) {
    const qreal x = slope > 0 ? area.top() + k : k - area.top();
    lines.append(QLineF(x, area.top(), x + slope * height, area.bottom()));
  }
}

void draw_dots(QPainter& painter, const QRectF& area, qreal pitch) {
  const qreal radius = pitch / 5;
  for (qreal y = std::floor(area.top() / pitch) * pitch; y < area.bottom() + pitch; y += pitch) {
    for (qreal x = std::floor(area.left() / pitch) * pitch; x < area.right() + pitch; x += pitch) {
      painter.drawEllipse(QPointF(x, y), radius, radius);
    }
  }
}

}  // namespace

void fill_series(QPainter& painter, const QRectF& area, const SeriesStyle& style, qreal pitch) {
  painter.fillRect(area, style.fill);
  if (style.pattern == Pattern::kPlain) {
    return;
  }
  painter.save();
  painter.setClipRect(area, Qt::IntersectClip);
  painter.setRenderHint(QPainter::Antialiasing);
  if (style.pattern == Pattern::kDots) {
    painter.setPen(Qt::NoPen);
    painter.setBrush(style.ink);
    draw_dots(painter, area, pitch);
  }
  const Strokes strokes = strokes_of(style.pattern);
  const qreal step = strokes.pitch * pitch;
  QList<QLineF> lines;
  if (strokes.rising) {
    add_diagonals(lines, area, step, -1);
  }
  if (strokes.falling) {
    add_diagonals(lines, area, step, 1);
  }
  if (strokes.horizontal) {
    for (qreal y = std::ceil(area.top() / step) * step; y < area.bottom(); y += step) {
      lines.append(QLineF(area.left(), y, area.right(), y));
    }
  }
  if (strokes.vertical) {
    for (qreal x = std::ceil(area.left() / step) * step; x < area.right(); x += step) {
      lines.append(QLineF(x, area.top(), x, area.bottom()));
    }
  }
  painter.setPen(QPen(style.ink, pitch / 5));
  painter.drawLines(lines);
  painter.restore();
}

}  // namespace headroom::gui
