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

/// What a metric says about which measurand; none for those without intervals.
[[nodiscard]] std::optional<cost::Measurand> measurand_of(Metric metric);

/// The errors of a set of rows, one per run: of peaks, the greatest measured one of a run against
/// the greatest predicted one. Rates count as the times they come from. Runs whose recording is
/// explained otherwise are left out. Sorted by source, runtime and measurand.
[[nodiscard]] std::vector<cost::ResidualSet> residuals_of(
    const Scoring& scoring, const std::vector<Explanation>& explanations);

/// Intervals around predictions of measured rows, each from the errors of the other sources.
class IntervalFinder {
 public:
  /// `sets` must outlive it.
  explicit IntervalFinder(std::span<const cost::ResidualSet> sets) : sets_(sets) {}

  struct Interval {
    double low = 0;
    double high = 0;
    [[nodiscard]] bool holds(double value) const { return low <= value && value <= high; }
  };
  /// In the unit of the score's metric; none where its metric has none or no other source speaks.
  [[nodiscard]] std::optional<Interval> find(const Score& score);

 private:
  using Key = std::tuple<std::string, std::string, cost::Measurand>;
  std::span<const cost::ResidualSet> sets_;
  std::map<Key, std::optional<cost::ErrorRange>> ranges_;
};

/// How often the measured value of a run lay inside its interval.
struct Coverage {
  std::string source;
  std::string runtime;
  Metric metric = Metric::kPeakAllocated;
  bool on_gpu = false;
  std::size_t runs = 0;
  std::size_t inside = 0;
};
/// One entry for each source, runtime and metric, sorted; a run counts once, with its peak.
[[nodiscard]] std::vector<Coverage> coverage_of(const Scoring& scoring,
                                                std::span<const cost::ResidualSet> sets);

}  // namespace headroom::check
