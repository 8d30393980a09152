#include "gui/charts/axis.h"

#include <algorithm>
#include <cmath>

namespace headroom::gui {

double round_step(double range, double count) {
  const double wanted = range / std::max(count, 1.0);
  if (!(wanted > 0)) {
    return 1;
  }
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= wanted * (1 - 1e-9)) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::vector<double> round_ticks(double least, double most, double count) {
  std::vector<double> ticks;
  const double step = round_step(most - least, count);
  constexpr int kMost = 1000;  // A chart has room for fewer.
  const double first = std::ceil(least / step - 1e-9);
  for (int i = 0; i < kMost && (first + i) * step <= most * (1 + 1e-9); ++i) {
    ticks.push_back((first + i) * step);
  }
  return ticks;
}

}  // namespace headroom::gui
