#include "gui/theme/palette.h"

#include <algorithm>
#include <cmath>

namespace headroom::gui {
namespace {

struct SeriesColour {
  QRgb light;
  QRgb dark;
  Pattern pattern;
};

// In the order of `ir::TensorRole`. Roles that persist have cool colours, short-lived ones have
// warm colours. Neighbours differ in hue, and no two have the same pattern.
constexpr std::array<SeriesColour, ir::kTensorRoleCount> kSeries = {{
    {0xff2b5fad, 0xff5b8fe0, Pattern::kPlain},         // parameters
    {0xff0f7f8c, 0xff3fb8c4, Pattern::kRising},        // gradients
    {0xff5a4aa8, 0xff9384e6, Pattern::kFalling},       // optimizer states
    {0xff3f86c9, 0xff8dc3f2, Pattern::kDiagonalGrid},  // master parameters
    {0xffc8601a, 0xfff0954f, Pattern::kHorizontal},    // activations
    {0xffb03a63, 0xffe8779d, Pattern::kVertical},      // logits and loss
    {0xff9a7400, 0xffd9b13b, Pattern::kDots},          // temporaries
    {0xff2f8550, 0xff62c088, Pattern::kGrid},          // communication
    {0xff6f7682, 0xffa4acb8, Pattern::kWideRising},    // workspaces
    {0xff8b5e3c, 0xffc79a78, Pattern::kWideFalling},   // buffers
    {0xff96449c, 0xffd08bd6, Pattern::kWideVertical},  // inputs
}};

struct VerdictColour {
  QRgb light;
  QRgb dark;
};
constexpr std::array<VerdictColour, 3> kVerdicts = {
    {{0xff1b7a3d, 0xff56c97b}, {0xff8f5f00, 0xffe3b341}, {0xffc02434, 0xffff7b78}}};

double linear(double channel) {
  return channel <= 0.03928 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
}

double luminance(const QColor& colour) {
  return 0.2126 * linear(static_cast<double>(colour.redF())) +
         0.7152 * linear(static_cast<double>(colour.greenF())) +
         0.0722 * linear(static_cast<double>(colour.blueF()));
}

/// Mixes two colours: `share` of `over`, and the rest of `under`.
QColor mixed(const QColor& over, const QColor& under, double share) {
  const auto channel = [share](int a, int b) {
    return static_cast<int>(std::lround(share * a + (1 - share) * b));
  };
  return {channel(over.red(), under.red()), channel(over.green(), under.green()),
          channel(over.blue(), under.blue())};
}

QColor readable_on_both(QRgb colour, const QPalette& palette, double ratio) {
  const QColor on_base = readable(QColor::fromRgb(colour), {palette.color(QPalette::Base), ratio});
  return readable(on_base, {palette.color(QPalette::Window), ratio});
}

SeriesStyle style_of(const SeriesColour& colour, const QPalette& palette, bool dark) {
  const QColor fill = readable_on_both(dark ? colour.dark : colour.light, palette, kShapeContrast);
  // Pattern lines are mixed with the page's colour, so that a patterned bar looks no heavier than a
  // plain one.
  return {.fill = fill,
          .ink = mixed(palette.color(QPalette::Base), fill, 0.45),
          .pattern = colour.pattern};
}

QPalette neutral_palette(bool dark) {
  const auto grey = [](int level) { return QColor(level, level, level); };
  const QColor text = dark ? QColor(0xe6, 0xe8, 0xeb) : QColor(0x1c, 0x20, 0x26);
  const QColor window = dark ? QColor(0x1b, 0x1d, 0x20) : QColor(0xf4, 0xf5, 0xf7);
  const QColor base = dark ? QColor(0x26, 0x29, 0x2d) : grey(0xff);
  const QColor button = dark ? QColor(0x35, 0x39, 0x3f) : QColor(0xea, 0xec, 0xef);
  const QColor accent = dark ? QColor(0x4a, 0x88, 0xe0) : QColor(0x2b, 0x66, 0xc0);
  QPalette palette(text, button, button.lighter(dark ? 130 : 105), button.darker(170),
                   button.darker(130), text, dark ? grey(0xff) : grey(0), base, window);
  palette.setColor(QPalette::AlternateBase, mixed(text, base, 0.04));
  palette.setColor(QPalette::Highlight, accent);
  palette.setColor(QPalette::HighlightedText, grey(0xff));
  palette.setColor(QPalette::Link, accent);
  palette.setColor(QPalette::ToolTipBase, dark ? button : grey(0xff));
  palette.setColor(QPalette::ToolTipText, text);
  palette.setColor(QPalette::PlaceholderText, mixed(text, base, 0.6));
  for (const QPalette::ColorRole role :
       {QPalette::Text, QPalette::WindowText, QPalette::ButtonText}) {
    palette.setColor(QPalette::Disabled, role, mixed(text, window, 0.45));
  }
  return palette;
}

}  // namespace

double contrast_ratio(const QColor& a, const QColor& b) {
  const double first = luminance(a);
  const double second = luminance(b);
  return (std::max(first, second) + 0.05) / (std::min(first, second) + 0.05);
}

QColor readable(const QColor& colour, const Backdrop& backdrop) {
  const QColor white(255, 255, 255);
  const QColor black(0, 0, 0);
  const QColor far = contrast_ratio(white, backdrop.colour) > contrast_ratio(black, backdrop.colour)
                         ? white
                         : black;
  constexpr int kSteps = 32;
  for (int step = 0; step < kSteps; ++step) {
    const QColor candidate = mixed(far, colour, static_cast<double>(step) / kSteps);
    if (contrast_ratio(candidate, backdrop.colour) >= backdrop.ratio) {
      return candidate;
    }
  }
  return far;
}

Theme theme_of(const QPalette& palette) {
  const QColor base = palette.color(QPalette::Base);
  const QColor window = palette.color(QPalette::Window);
  const QColor text = palette.color(QPalette::WindowText);
  Theme theme;
  // Qt reports light or dark only from 6.5 on; comparing lightness works in every version.
  theme.dark = window.lightness() < text.lightness();
  for (std::size_t i = 0; i < kSeries.size(); ++i) {
    theme.series.at(i) = style_of(kSeries.at(i), palette, theme.dark);
  }
  for (std::size_t i = 0; i < kVerdicts.size(); ++i) {
    const VerdictColour& pair = kVerdicts.at(i);
    const QColor raw = QColor::fromRgb(theme.dark ? pair.dark : pair.light);
    theme.verdict_tint.at(i) = mixed(raw, base, theme.dark ? 0.16 : 0.09);
    theme.verdict.at(i) = readable(raw, {theme.verdict_tint.at(i), kTextContrast});
  }
  theme.text = text;
  theme.quiet_text = readable(mixed(text, base, 0.62), {base, kTextContrast});
  theme.grid = mixed(text, base, theme.dark ? 0.16 : 0.12);
  theme.capacity = readable(QColor::fromRgb(theme.dark ? kVerdicts[2].dark : kVerdicts[2].light),
                            {base, kTextContrast});
  theme.beyond = mixed(theme.capacity, base, theme.dark ? 0.09 : 0.06);
  theme.outline = readable(mixed(text, base, 0.5), {base, kShapeContrast});
  return theme;
}

QPalette palette_of(Look look, const QPalette& desktop) {
  switch (look) {
    case Look::kDesktop:
      return desktop;
    case Look::kLight:
      return neutral_palette(false);
    case Look::kDark:
      return neutral_palette(true);
  }
  return desktop;
}

}  // namespace headroom::gui
