#pragma once

#include <functional>
#include <vector>

namespace headroom::cost::fit {

using Point = std::vector<double>;

/// A local minimum of `objective` near `start`. The simplex is restarted around its best corner
/// until a restart brings no gain. Deterministic. A thousandth of the squared distance from `start`
/// is added, so that figures that the measurements do not determine stay as they were.
///
/// Units:   `scale` is the first step along every axis; fits pass logarithms.
/// Source:  Nelder & Mead 1965, The Computer Journal 7(4):308-313.
[[nodiscard]] Point minimum_near(const std::function<double(const Point&)>& objective, Point start,
                                 double scale);

}  // namespace headroom::cost::fit
