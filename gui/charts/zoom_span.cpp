#include "gui/charts/zoom_span.h"

#include <algorithm>

namespace headroom::gui {

ZoomSpan within(const ZoomSpan& span, const ZoomLimits& limits) {
  const double whole = limits.whole.length();
  const double length = std::clamp(span.length(), std::min(limits.shortest, whole), whole);
  const double middle = (span.begin + span.end) / 2;
  const double begin =
      std::clamp(middle - length / 2, limits.whole.begin, limits.whole.end - length);
  return {.begin = begin, .end = begin + length};
}

ZoomSpan zoomed(const ZoomSpan& span, double at, double factor, const ZoomLimits& limits) {
  const double whole = limits.whole.length();
  const double length = std::clamp(span.length() * factor, std::min(limits.shortest, whole), whole);
  const double share = span.length() > 0 ? (at - span.begin) / span.length() : 0.5;
  const double begin = at - share * length;
  return within({.begin = begin, .end = begin + length}, limits);
}

ZoomSpan moved(const ZoomSpan& span, double distance, const ZoomLimits& limits) {
  return within({.begin = span.begin + distance, .end = span.end + distance}, limits);
}

ZoomSpan showing(const ZoomSpan& span, double at, const ZoomLimits& limits) {
  const double edge = span.length() / 10;
  if (at < span.begin) {
    return moved(span, at - edge - span.begin, limits);
  }
  if (at > span.end) {
    return moved(span, at + edge - span.end, limits);
  }
  return span;
}

}  // namespace headroom::gui
