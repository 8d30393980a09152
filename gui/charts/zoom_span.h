#pragma once

namespace headroom::gui {

/// A part of an axis, in the axis' unit: a range of events, of seconds.
struct ZoomSpan {
  double begin = 0;
  double end = 1;
  [[nodiscard]] double length() const { return end - begin; }
  friend bool operator==(const ZoomSpan&, const ZoomSpan&) = default;
};

/// The whole axis, and the shortest part of it that may be shown.
struct ZoomLimits {
  ZoomSpan whole;
  double shortest = 1;
};

/// `span` moved and, if it is too long or too short, resized about its middle until it lies within
/// the limits.
[[nodiscard]] ZoomSpan within(const ZoomSpan& span, const ZoomLimits& limits);

/// `span` with `factor` times its length; the point `at` keeps its place. Within the limits.
[[nodiscard]] ZoomSpan zoomed(const ZoomSpan& span, double at, double factor,
                              const ZoomLimits& limits);

/// `span` moved by `distance`, within the limits.
[[nodiscard]] ZoomSpan moved(const ZoomSpan& span, double distance, const ZoomLimits& limits);

/// `span` moved as little as possible so that `at` lies in it, not at its very edge.
[[nodiscard]] ZoomSpan showing(const ZoomSpan& span, double at, const ZoomLimits& limits);

}  // namespace headroom::gui
