#include "gui/theme/pattern.h"

#include <algorithm>
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
  qreal pitch = 1;  ///< The distance of the lines, in the caller's units.
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

/// The multiples of `pitch` from `low` to `high`, with both ends rounded outwards.
struct Multiples {
  Multiples(const QPointF& range, qreal pitch)
      : first(static_cast<int>(std::floor(range.x() / pitch))),
        last(static_cast<int>(std::ceil(range.y() / pitch))) {}
  int first;
  int last;
};

// The lines end at the border of the area, or half their width beyond it, because an SVG file knows
// no clipping (QSvgGenerator writes SVG Tiny 1.2).

/// The width of a line, as a share of the pattern's pitch.
constexpr qreal kLineWidth = 0.2;
/// How far a diagonal line may go beyond the sides of the area: half of its width along the x axis,
/// and a little more.
constexpr qreal kLineReach = 0.75 * kLineWidth;
/// Rounding of a border that is a multiple of the pitch.
constexpr qreal kRounding = 1e-9;

QRectF with_borders(const QRectF& area, qreal pitch) {
  const qreal more = kRounding * pitch;
  return area.adjusted(-more, -more, more, more);
}

/// Adds the lines at 45 degrees that cross `area`, one for every `pitch` on the x axis.
void add_rising(QList<QLineF>& lines, const QRectF& area, qreal pitch, qreal reach) {
  const Multiples span({area.left() + area.top() - reach, area.right() + area.bottom() + reach},
                       pitch);
  for (int i = span.first; i <= span.last; ++i) {
    const qreal sum = i * pitch;  // The sum of x and y on the line.
    const qreal top = std::max(area.top(), sum - area.right() - reach);
    const qreal bottom = std::min(area.bottom(), sum - area.left() + reach);
    if (top < bottom) {
      lines.append(QLineF(sum - top, top, sum - bottom, bottom));
    }
  }
}

void add_falling(QList<QLineF>& lines, const QRectF& area, qreal pitch, qreal reach) {
  const Multiples span({area.left() - area.bottom() - reach, area.right() - area.top() + reach},
                       pitch);
  for (int i = span.first; i <= span.last; ++i) {
    const qreal difference = i * pitch;  // The same for x - y.
    const qreal top = std::max(area.top(), area.left() - difference - reach);
    const qreal bottom = std::min(area.bottom(), area.right() - difference + reach);
    if (top < bottom) {
      lines.append(QLineF(difference + top, top, difference + bottom, bottom));
    }
  }
}

void add_horizontal(QList<QLineF>& lines, const QRectF& area, qreal pitch) {
  const QRectF borders = with_borders(area, pitch);
  const Multiples span({area.top(), area.bottom()}, pitch);
  for (int i = span.first; i <= span.last; ++i) {
    const qreal y = i * pitch;
    if (borders.top() <= y && y <= borders.bottom()) {
      lines.append(QLineF(area.left(), y, area.right(), y));
    }
  }
}

void add_vertical(QList<QLineF>& lines, const QRectF& area, qreal pitch) {
  const QRectF borders = with_borders(area, pitch);
  const Multiples span({area.left(), area.right()}, pitch);
  for (int i = span.first; i <= span.last; ++i) {
    const qreal x = i * pitch;
    if (borders.left() <= x && x <= borders.right()) {
      lines.append(QLineF(x, area.top(), x, area.bottom()));
    }
  }
}

void draw_dots(QPainter& painter, const QRectF& area, qreal pitch) {
  const QRectF borders = with_borders(area, pitch);
  const Multiples rows({area.top(), area.bottom()}, pitch);
  const Multiples columns({area.left(), area.right()}, pitch);
  for (int row = rows.first; row <= rows.last; ++row) {
    for (int column = columns.first; column <= columns.last; ++column) {
      const QPointF centre(column * pitch, row * pitch);
      if (borders.contains(centre)) {
        painter.drawEllipse(centre, pitch / 5, pitch / 5);
      }
    }
  }
}

QList<QLineF> lines_of(const Strokes& strokes, const QRectF& area, qreal pitch) {
  const qreal step = strokes.pitch * pitch;
  QList<QLineF> lines;
  if (strokes.rising) {
    add_rising(lines, area, step, kLineReach * pitch);
  }
  if (strokes.falling) {
    add_falling(lines, area, step, kLineReach * pitch);
  }
  if (strokes.horizontal) {
    add_horizontal(lines, area, step);
  }
  if (strokes.vertical) {
    add_vertical(lines, area, step);
  }
  return lines;
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
  } else {
    painter.setPen(QPen(style.ink, kLineWidth * pitch));
    painter.drawLines(lines_of(strokes_of(style.pattern), area, pitch));
  }
  painter.restore();
}

}  // namespace headroom::gui
