#pragma once

#include <vector>

#include <QFont>
#include <QString>

#include "gui/theme/palette.h"

class QPainter;

namespace headroom::gui {

/// One name of a legend and the sign before it.
struct LegendEntry {
  enum class Sign : std::uint8_t { kFill, kLine, kDashed, kDot, kWaiting };
  QString name;
  SeriesStyle style{};
  Sign sign = Sign::kFill;
};

/// Paints `entries` from left to right in lines of `width`, from `top` on. Returns the height that
/// they take; a null painter only measures.
qreal draw_legend(QPainter* painter, const std::vector<LegendEntry>& entries, const Theme& theme,
                  const QRectF& area, const QFont& font);

}  // namespace headroom::gui
