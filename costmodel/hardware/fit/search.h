#pragma once

#include <functional>
#include <vector>

namespace headroom::cost::fit {

using Point = std::vector<double>;

/// A local minimum of `objective` near `start`, from a simplex that is restarted around its best
/// corner until a restart gains nothing. Deterministic. A thousandth of the squared distance from
/// `start` is added, so that what the measurements do not determine stays what it was.
///
/// Units:   `scale` is the first step along every axis; fits pass logarithms.
/// Source:  Nelder & Mead 1965, The Computer Journal 7(4):308-313.
[[nodiscard]] Point minimum_near(const std::function<double(const Point&)>& objective, Point start,
                                 double scale);

}  // namespace headroom::cost::fit
