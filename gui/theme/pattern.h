#pragma once

#include <cstdint>

#include <QColor>
#include <QRectF>

class QPainter;

namespace headroom::gui {

/// A pattern drawn over a fill, so that categories are distinguishable without colour, too.
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

/// How one category is drawn. The pattern identifies the category as the colour does.
struct SeriesStyle {
  QColor fill;
  QColor ink;  ///< Colour of the pattern.
  Pattern pattern = Pattern::kPlain;
};

/// Fills `area` with `style`. `pitch` is the distance of a pattern's lines in logical pixels. The
/// pattern is anchored to the painter's origin, so that it does not shift between neighbours or
/// redraws.
void fill_series(QPainter& painter, const QRectF& area, const SeriesStyle& style, qreal pitch);

}  // namespace headroom::gui
