#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "validators/measured/score.h"

namespace headroom::check {

/// Bounds on |error| whose shares a summary gives.
inline constexpr std::array<double, 4> kWithin = {0.001, 0.005, 0.01, 0.02};

/// What the scores of one source, runtime, way of spreading and metric say together. All figures
/// are over |error|.
struct SummaryLine {
  std::string source;
  std::string runtime;
  std::string parallel;
  Metric metric = Metric::kAllocatedAfter;
  std::size_t n = 0;
  double exact_share = 0;  ///< Of the scores, those with error 0.
  double median = 0;       ///< Mean of the middle two if n is even.
  double p90 = 0;          ///< Smallest error that at least 90 % of the scores do not exceed.
  double worst = 0;
  std::array<double, kWithin.size()> within{};  ///< Shares, as `kWithin`.
};

/// One line for each group, sorted by source, runtime, parallel and metric.
[[nodiscard]] std::vector<SummaryLine> summarise(const std::vector<Score>& scores);

}  // namespace headroom::check
