#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headroom::calibrate {

/// Repeated measurements of one case.
struct Measurement {
  std::string name;             ///< `Case::name`
  std::int64_t calls = 0;       ///< Calls of one repetition.
  std::vector<double> seconds;  ///< Seconds of one call, for each repetition.
  friend bool operator==(const Measurement&, const Measurement&) = default;
};

/// The median; the mean of the middle two if their number is even. Requires at least one value.
[[nodiscard]] double median_of(std::vector<double> values);

/// The spread of repeated measurements: the distance of the upper quartile from the lower one,
/// over the median. Single outliers, which every busy machine has, do not count. Requires at least
/// one value; the median of zeros has the spread 0.
[[nodiscard]] double spread_of(std::vector<double> values);

/// The widest spread that is written to a file without --force. Medians of nine repetitions then
/// are known to some per cent, as far as the time model itself is off.
inline constexpr double kWidestSpread = 0.10;

}  // namespace headroom::calibrate
