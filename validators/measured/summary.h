#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "validators/measured/score.h"

namespace headroom::check {

/// Bounds on
/// error
/// . A summary gives the share of scores within each.
inline constexpr std::array<double, 4> kWithin = {0.001, 0.005, 0.01, 0.02};

/// Statistics of the scores that have source, runtime, parallelism and metric in common. All are of
/// error
/// .
struct SummaryLine {
  std::string source;
  std::string runtime;
  std::string parallel;
  Metric metric = Metric::kAllocatedAfter;
  std::size_t n = 0;
  double exact_share = 0;  ///< Share of the scores with error 0.
  double median = 0;       ///< Mean of the middle two if n is even.
  double p90 = 0;          ///< Smallest error that at least 90 % of the scores do not exceed.
  double worst = 0;
  std::array<double, kWithin.size()> within{};  ///< Shares within the bounds of `kWithin`.
};

/// One line for each group, sorted by source, runtime, parallel and metric.
[[nodiscard]] std::vector<SummaryLine> summarise(const std::vector<Score>& scores);

}  // namespace headroom::check
