#include "gui/theme/palette.h"

#include <cstdlib>
#include <set>

#include <QImage>
#include <QPainter>

#include <doctest/doctest.h>

#include "gui/charts/chart.h"
#include "gui/theme/pattern.h"
#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

QPalette flat_palette(const QColor& background, const QColor& text) {
  QPalette palette(background, background);
  for (const QPalette::ColorRole role : {QPalette::Base, QPalette::Window}) {
    palette.setColor(role, background);
  }
  for (const QPalette::ColorRole role : {QPalette::Text, QPalette::WindowText}) {
    palette.setColor(role, text);
  }
  return palette;
}

struct Case {
  const char* name;
  QPalette palette;
};

std::vector<Case> palettes() {
  return {{"light", palette_of(Look::kLight, {})},
          {"dark", palette_of(Look::kDark, {})},
          {"white", flat_palette(Qt::white, Qt::black)},
          {"black", flat_palette(Qt::black, Qt::white)},
          {"sepia", flat_palette(QColor(0xf4, 0xec, 0xd8), QColor(0x43, 0x34, 0x22))},
          {"middle grey", flat_palette(QColor(0x77, 0x77, 0x77), Qt::white)}};
}

}  // namespace

TEST_CASE("contrast_ratio: black on white is 21, a colour on itself 1") {
  CHECK(contrast_ratio(Qt::black, Qt::white) == doctest::Approx(21));
  CHECK(contrast_ratio(Qt::red, Qt::red) == doctest::Approx(1));
  // #767676 on white is the classic of 4.54, WCAG 2.1's lightest grey for text.
  CHECK(contrast_ratio(QColor(0x76, 0x76, 0x76), Qt::white) ==
        doctest::Approx(4.54).epsilon(0.005));
}

TEST_CASE("readable: leaves what is readable alone and mends what is not") {
  CHECK(readable(Qt::black, {Qt::white, 4.5}) == QColor(Qt::black));
  const QColor mended = readable(QColor(0xff, 0xee, 0x80), {Qt::white, 4.5});
  CHECK(contrast_ratio(mended, Qt::white) >= 4.5);
  CHECK(mended.hslHue() == doctest::Approx(QColor(0xff, 0xee, 0x80).hslHue()).epsilon(0.1));
}

TEST_CASE("theme_of: shapes contrast 3 to 1 and text 4.5 to 1 on every palette") {
  for (const Case& one : palettes()) {
    CAPTURE(one.name);
    const Theme theme = theme_of(one.palette);
    const QColor base = one.palette.color(QPalette::Base);
    for (const SeriesStyle& style : theme.series) {
      CHECK(contrast_ratio(style.fill, base) >= 3.0);
    }
    for (std::size_t verdict = 0; verdict < theme.verdict.size(); ++verdict) {
      CHECK(contrast_ratio(theme.verdict.at(verdict), theme.verdict_tint.at(verdict)) >= 4.5);
    }
    const bool reachable =
        contrast_ratio(base, Qt::white) >= 4.5 || contrast_ratio(base, Qt::black) >= 4.5;
    CHECK(reachable);
    CHECK(contrast_ratio(theme.quiet_text, base) >= 4.5);
    CHECK(contrast_ratio(theme.capacity, base) >= 4.5);
    CHECK(contrast_ratio(theme.outline, base) >= 3.0);
  }
}

TEST_CASE("theme_of: reads light and dark from the palette") {
  CHECK_FALSE(theme_of(palette_of(Look::kLight, {})).dark);
  CHECK(theme_of(palette_of(Look::kDark, {})).dark);
  CHECK(palette_of(Look::kDesktop, flat_palette(Qt::white, Qt::black)) ==
        flat_palette(Qt::white, Qt::black));
}

TEST_CASE("theme_of: no two categories share a pattern, and patterns show on their fill") {
  for (const Case& one : palettes()) {
    CAPTURE(one.name);
    std::set<Pattern> seen;
    for (const SeriesStyle& style : theme_of(one.palette).series) {
      CHECK(seen.insert(style.pattern).second);
      CHECK(contrast_ratio(style.fill, style.ink) >= 1.3);
    }
  }
}

TEST_CASE("fill_series: patterns differ without any colour") {
  std::vector<QImage> drawn;
  for (const SeriesStyle& style : theme_of(palette_of(Look::kLight, {})).series) {
    QImage image(48, 24, QImage::Format_RGB32);
    QPainter painter(&image);
    const SeriesStyle grey{.fill = Qt::gray, .ink = Qt::white, .pattern = style.pattern};
    fill_series(painter, QRectF(image.rect()), grey, 6);
    painter.end();
    for (const QImage& other : drawn) {
      CHECK(image != other);
    }
    drawn.push_back(image);
  }
}

TEST_CASE("fill_series: paints its area and nothing beside it") {
  QImage image(40, 40, QImage::Format_RGB32);
  for (const SeriesStyle& style : theme_of(palette_of(Look::kDark, {})).series) {
    image.fill(Qt::white);
    QPainter painter(&image);
    fill_series(painter, QRectF(10, 10, 20, 20), style, 6);
    painter.end();
    for (int at = 0; at < 40; ++at) {
      CHECK(image.pixelColor(at, 9) == QColor(Qt::white));
      CHECK(image.pixelColor(at, 30) == QColor(Qt::white));
      CHECK(image.pixelColor(9, at) == QColor(Qt::white));
      CHECK(image.pixelColor(30, at) == QColor(Qt::white));
    }
    CHECK(image.pixelColor(10, 10) != QColor(Qt::white));
    CHECK(image.pixelColor(29, 29) != QColor(Qt::white));
  }
}

TEST_CASE("Pattern: tiles that are repeated have no seams") {
  for (int pattern = 0; pattern <= static_cast<int>(Pattern::kWideVertical); ++pattern) {
    const SeriesStyle style{
        .fill = Qt::white, .ink = Qt::black, .pattern = static_cast<Pattern>(pattern)};
    for (const qreal pitch : {5.04, 5.76, 6.48, 7.2}) {  // Fonts of 14 to 20 pixels.
      CAPTURE(pattern);
      CAPTURE(pitch);
      const QImage tile = series_tile(style, pitch, 1);
      QImage whole(2 * tile.size(), QImage::Format_ARGB32_Premultiplied);
      QPainter painter(&whole);
      fill_series(painter, QRectF(whole.rect()), style, tile.width() / 84.0);
      painter.end();
      int differing = 0;
      for (int y = 0; y < whole.height(); ++y) {
        for (int x = 0; x < whole.width(); ++x) {
          const int drawn = qGray(whole.pixel(x, y));
          const int repeated = qGray(tile.pixel(x % tile.width(), y % tile.height()));
          differing += std::abs(drawn - repeated) > 64 ? 1 : 0;
        }
      }
      CHECK(differing <= whole.width() / 8);
    }
  }
}

}  // namespace headroom::gui
