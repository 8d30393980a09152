#pragma once

#include <vector>

namespace headroom::gui {

/// The least of 1, 2 and 5 times a power of ten that is at least `range / count`.
[[nodiscard]] double round_step(double range, double count);

/// The multiples of a round step in [least, most], about `count` of them.
[[nodiscard]] std::vector<double> round_ticks(double least, double most, double count);

}  // namespace headroom::gui
