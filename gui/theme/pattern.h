#pragma once

#include <cstdint>

#include <QColor>
#include <QRectF>

class QPainter;

namespace headroom::gui {

/// What is drawn over a fill, so that categories differ without colour too.
enum class Pattern : std::uint8_t {
  kPlain,
  kRising,
  kFalling,
  kDiagonalGrid,
  kHorizontal,
  kVertical,
  kGrid,
  kDots,
  kWideRising,
  kWideFalling,
  kWideVertical,
};

/// How one category is drawn. The pattern says the same as the colour.
struct SeriesStyle {
  QColor fill;
  QColor ink;  ///< Of the pattern on the fill.
  Pattern pattern = Pattern::kPlain;
};

/// Fills `area` with `style`. `pitch` is the distance of a pattern's lines in logical pixels. The
/// pattern is anchored to the painter's origin, so that neighbours and redraws do not shift it.
void fill_series(QPainter& painter, const QRectF& area, const SeriesStyle& style, qreal pitch);

}  // namespace headroom::gui
