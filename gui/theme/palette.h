#pragma once

#include <array>
#include <cstdint>

#include <QColor>
#include <QPalette>

#include "costmodel/estimate.h"
#include "gui/theme/pattern.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::gui {

/// Every colour of ours, for one palette of the desktop.
struct Theme {
  bool dark = false;
  std::array<SeriesStyle, ir::kTensorRoleCount> series;
  std::array<QColor, 3> verdict;       ///< Indexed by `cost::Verdict`; on the window's colour.
  std::array<QColor, 3> verdict_tint;  ///< Behind it: its faint companion.
  QColor text;
  QColor quiet_text;  ///< Captions and units.
  QColor grid;
  QColor capacity;  ///< The line.
  QColor beyond;    ///< Tint of what lies beyond the capacity.
  QColor outline;   ///< Around reserved memory that no tensor has.

  [[nodiscard]] const SeriesStyle& of(ir::TensorRole role) const {
    return series.at(static_cast<std::size_t>(role));
  }
};

/// What shapes and text must reach. Source: W3C, WCAG 2.1, criteria 1.4.11 and 1.4.3.
inline constexpr double kShapeContrast = 3.0;
inline constexpr double kTextContrast = 4.5;

/// WCAG 2.1's ratio of the relative luminances of two opaque colours, 1 to 21.
/// Source: W3C, WCAG 2.1, "contrast ratio" and "relative luminance".
[[nodiscard]] double contrast_ratio(const QColor& a, const QColor& b);

/// What a colour must stand out against, and by how much.
struct Backdrop {
  QColor colour;
  double ratio = kTextContrast;
};
/// `colour` moved towards black or white, whichever is further from the backdrop's colour, until
/// their contrast is at least the backdrop's ratio.
[[nodiscard]] QColor readable(const QColor& colour, const Backdrop& backdrop);

/// Colours for `palette`. Fills reach `kShapeContrast` to the base and window colours, text
/// `kTextContrast`.
[[nodiscard]] Theme theme_of(const QPalette& palette);

/// Which palette the window uses.
enum class Look : std::uint8_t { kDesktop, kLight, kDark };
/// A neutral palette of our own for `kLight` and `kDark`, `desktop` otherwise.
[[nodiscard]] QPalette palette_of(Look look, const QPalette& desktop);

}  // namespace headroom::gui
