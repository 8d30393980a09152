#include "gui/charts/zoom_span.h"

#include <doctest/doctest.h>

namespace headroom::gui {

constexpr ZoomLimits kLimits{.whole = {.begin = 0, .end = 100}, .shortest = 10};

TEST_CASE("zoomed: the point keeps its place") {
  const ZoomSpan span = zoomed({.begin = 20, .end = 60}, 30, 0.5, kLimits);
  CHECK(span == ZoomSpan{.begin = 25, .end = 45});
}

TEST_CASE("zoomed: stays within the limits") {
  CHECK(zoomed({.begin = 0, .end = 100}, 50, 2, kLimits) == kLimits.whole);
  CHECK(zoomed({.begin = 40, .end = 52}, 46, 0.1, kLimits).length() == doctest::Approx(10));
}

TEST_CASE("moved: stops at the ends with its length") {
  CHECK(moved({.begin = 20, .end = 60}, -50, kLimits) == ZoomSpan{.begin = 0, .end = 40});
  CHECK(moved({.begin = 20, .end = 60}, 70, kLimits) == ZoomSpan{.begin = 60, .end = 100});
}

TEST_CASE("showing: moves only if it must") {
  CHECK(showing({.begin = 20, .end = 60}, 40, kLimits) == ZoomSpan{.begin = 20, .end = 60});
  CHECK(showing({.begin = 20, .end = 60}, 70, kLimits) == ZoomSpan{.begin = 34, .end = 74});
  CHECK(showing({.begin = 20, .end = 60}, 2, kLimits) == ZoomSpan{.begin = 0, .end = 40});
}

}  // namespace headroom::gui
