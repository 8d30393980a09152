#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "costmodel/confidence.h"
#include "costmodel/residuals.h"
#include "validators/measured/explanations.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// The measurand that a metric gives a value of; none if no intervals exist for the metric.
[[nodiscard]] std::optional<cost::Measurand> measurand_of(Metric metric);

/// The errors of a set of rows, one per run. For peaks, the largest measured peak of a run is
/// compared with the largest predicted one. Rates are converted to times. Runs whose errors the
/// recording explains are left out. Sorted by source, runtime and measurand.
[[nodiscard]] std::vector<cost::ResidualSet> residuals_of(
    const Scoring& scoring, const std::vector<Explanation>& explanations);

/// Intervals around predictions of measured rows. Each is derived from the errors of the other
/// sources.
class IntervalFinder {
 public:
  /// `sets` must outlive it.
  explicit IntervalFinder(std::span<const cost::ResidualSet> sets) : sets_(sets) {}

  struct Interval {
    double low = 0;
    double high = 0;
    [[nodiscard]] bool holds(double value) const { return low <= value && value <= high; }
  };
  /// The interval is in the unit of the score's metric; none if the metric has no intervals or no
  /// other source has errors.
  [[nodiscard]] std::optional<Interval> find(const Score& score);

 private:
  using Key = std::tuple<std::string, std::string, cost::Measurand>;
  std::span<const cost::ResidualSet> sets_;
  std::map<Key, std::optional<cost::ErrorRange>> ranges_;
};

/// How often the measured values of runs were inside their intervals.
struct Coverage {
  std::string source;
  std::string runtime;
  Metric metric = Metric::kPeakAllocated;
  bool on_gpu = false;
  std::size_t runs = 0;
  std::size_t inside = 0;
};
/// One entry for each source, runtime and metric, sorted. A run counts once, with its peak.
[[nodiscard]] std::vector<Coverage> coverage_of(const Scoring& scoring,
                                                std::span<const cost::ResidualSet> sets);

}  // namespace headroom::check
