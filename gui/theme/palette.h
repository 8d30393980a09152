#pragma once

#include <array>
#include <cstdint>

#include <QColor>
#include <QPalette>

#include "costmodel/estimate.h"
#include "gui/theme/pattern.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::gui {

/// All colours that the window adds to one palette of the desktop.
struct Theme {
  bool dark = false;
  std::array<SeriesStyle, ir::kTensorRoleCount> series;
  std::array<QColor, 3> verdict;  ///< Indexed by `cost::Verdict`; drawn on the window's colour.
  std::array<QColor, 3> verdict_tint;  ///< Their backgrounds, fainter.
  QColor text;
  QColor quiet_text;  ///< Captions and units.
  QColor grid;
  QColor capacity;  ///< The capacity line.
  QColor beyond;    ///< Tint of the range beyond the capacity.
  QColor outline;   ///< Outline of reserved memory without tensors.

  [[nodiscard]] const SeriesStyle& of(ir::TensorRole role) const {
    return series.at(static_cast<std::size_t>(role));
  }
};

/// The least contrast of shapes and of text. Source: W3C, WCAG 2.1, criteria 1.4.11 and 1.4.3.
inline constexpr double kShapeContrast = 3.0;
inline constexpr double kTextContrast = 4.5;

/// The contrast ratio of two opaque colours, from 1 to 21, from their relative luminances.
/// Source: W3C, WCAG 2.1, "contrast ratio" and "relative luminance".
[[nodiscard]] double contrast_ratio(const QColor& a, const QColor& b);

/// A background colour, and the contrast ratio that is required against it.
struct Backdrop {
  QColor colour;
  double ratio = kTextContrast;
};
/// Moves `colour` towards black or white, whichever is further from the backdrop's colour, until
/// their contrast is at least the backdrop's ratio.
[[nodiscard]] QColor readable(const QColor& colour, const Backdrop& backdrop);

/// The colours for `palette`. The contrast to the base and window colours is at least
/// `kShapeContrast` for fills and `kTextContrast` for text.
[[nodiscard]] Theme theme_of(const QPalette& palette);

/// Which palette the window uses.
enum class Look : std::uint8_t { kDesktop, kLight, kDark };
/// Our own neutral palette for `kLight` and `kDark`; else `desktop`.
[[nodiscard]] QPalette palette_of(Look look, const QPalette& desktop);

}  // namespace headroom::gui
