#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/residuals.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cost {

/// Share of runs that an interval is made to hold.
inline constexpr double kConfidenceLevel = 0.95;
/// From this many runs on, the ends of an interval are ranks of the sorted errors; with fewer, the
/// smallest and the largest.
inline constexpr std::size_t kRunsForRanks = 39;

/// From this many runs on, a source speaks for its runtime: the extremes of n hold a further run
/// with (n - 1) / (n + 1), three times of four.
inline constexpr std::size_t kRunsOfSource = 7;

/// Between which relative errors (measured - predicted) / predicted lie.
struct ErrorRange {
  double low = 0;
  double high = 0;
  [[nodiscard]] bool holds(double error) const { return low <= error && error <= high; }
  friend bool operator==(const ErrorRange&, const ErrorRange&) = default;
};

/// By how much a user's own runs were missed, one entry per run.
struct Calibration {
  std::vector<double> allocated;
  std::vector<double> reserved;
  std::vector<double> step_time;
};

/// The errors that speak for a prediction, and where they come from.
struct ErrorModel {
  ErrorRange range;
  /// What a GPU may show, each source with the same weight: pairs of an error and its weight, the
  /// weights summing to 1. Empty if nothing is known.
  struct Sample {
    double error = 0;
    double weight = 0;
  };
  std::vector<Sample> samples;
  std::size_t runs = 0;
  std::size_t gpu_runs = 0;
  std::size_t own_runs = 0;  ///< Of the user.
  std::vector<std::string> sources;
  bool borrowed = false;  ///< Some come from other runtimes: this one has too few runs on GPUs.
};

/// Which errors to expect of a prediction of `measurand` for `runtime`.
///
/// Model:   per source a split conformal interval: with n >= 39 errors the ranks floor and
///          ceil of (n + 1) 0.025 and 0.975, with fewer the extremes; the range is the hull over
///          the runtime's sources, because a next one differs from each of them as they differ
///          among each other. A runtime with fewer than two sources of seven or more runs on GPUs
///          takes those of the other runtimes as well; allocated and reserved bytes lend to each
///          other. Step times borrow only step times. With runs of one's own, the centre is their
///          mean, and the spread is that of differences within the sources.
/// Source:  V. Vovk et al., Algorithmic Learning in a Random World, 2005, section 4.1; J. Lei et
///          al., Distribution-Free Predictive Inference for Regression, 2018, section 2.2.
[[nodiscard]] ErrorModel error_model(std::span<const ResidualSet> sets, const std::string& runtime,
                                     Measurand measurand, const Calibration& own = {});

struct ByteInterval {
  Bytes low;
  Bytes high;
};

struct TimeInterval {
  Seconds low;
  Seconds high;
};

/// How sure an estimate is.
struct Confidence {
  ByteInterval allocated;
  ByteInterval reserved;
  std::optional<TimeInterval>
      step_time;  ///< Where the estimate has a time, and times were measured.
  double fits_probability = 0;
  ErrorModel basis;  ///< That of reserved bytes.
};

/// `predicted` x (1 + e) at both ends of `range`, never below 0.
[[nodiscard]] ByteInterval interval_of(Bytes predicted, const ErrorRange& range);

/// Intervals for the peaks of `estimate`, and how likely the run is to fit.
///
/// Model:   it fits if what the allocator needs, off by an error of the samples, and what lies
///          outside it go into the device. The terms outside are together uniform between their
///          values and their bounds. What the allocator needs is the reserved peak; where it lives
///          from emptying its cache, or runs out, the least capacity with which the replay ends.
[[nodiscard]] Confidence confidence_of(const StepEstimate& estimate, const ir::ParallelPlan& plan,
                                       std::span<const ResidualSet> sets,
                                       const Calibration& own = {});

}  // namespace headroom::cost
