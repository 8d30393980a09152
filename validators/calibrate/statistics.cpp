#include "validators/calibrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "model_ir/base/check.h"

namespace headroom::calibrate {
namespace {

/// Value at `share` of the way through sorted values, interpolated between neighbours.
double quantile_of(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

}  // namespace

double median_of(std::vector<double> values) {
  HEADROOM_ASSERT(!values.empty());
  std::ranges::sort(values);
  return quantile_of(values, 0.5);
}

double spread_of(std::vector<double> values) {
  HEADROOM_ASSERT(!values.empty());
  std::ranges::sort(values);
  const double median = quantile_of(values, 0.5);
  return median > 0 ? (quantile_of(values, 0.75) - quantile_of(values, 0.25)) / median : 0;
}

}  // namespace headroom::calibrate
