#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/residuals.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cost {

/// Share of runs that an interval should contain.
inline constexpr double kConfidenceLevel = 0.95;
/// From this many runs on, the ends of an interval are ranks of the sorted errors; with fewer, the
/// smallest and the largest.
inline constexpr std::size_t kRunsForRanks = 39;

/// A source counts for its runtime from this many runs on: the extremes of n runs contain a further
/// run with probability (n - 1) / (n + 1), here three out of four.
inline constexpr std::size_t kRunsOfSource = 7;

/// A range of relative errors (measured - predicted) / predicted.
struct ErrorRange {
  double low = 0;
  double high = 0;
  [[nodiscard]] bool holds(double error) const { return low <= error && error <= high; }
  friend bool operator==(const ErrorRange&, const ErrorRange&) = default;
};

/// Relative errors of the predictions on the user's own runs, one entry per run.
struct Calibration {
  std::vector<double> allocated;
  std::vector<double> reserved;
  std::vector<double> step_time;
};

/// The errors that apply to a prediction, and where they come from.
struct ErrorModel {
  ErrorRange range;
  /// Errors to expect on a GPU as pairs of an error and its weight. Each source has the same
  /// weight; the weights sum to 1. Empty if nothing is known.
  struct Sample {
    double error = 0;
    double weight = 0;
  };
  std::vector<Sample> samples;
  std::size_t runs = 0;
  std::size_t gpu_runs = 0;
  std::size_t own_runs = 0;  ///< Number of the user's runs.
  std::vector<std::string> sources;
  bool borrowed = false;  ///< Some sets come from other runtimes; this one has too few on GPUs.
};

/// Which errors to expect of a prediction of `measurand` for `runtime`.
///
/// Model:   per source a split conformal interval: with n >= 39 errors the ranks floor and ceil of
///          (n + 1) 0.025 and 0.975, with fewer the extremes; the range is the hull over the
///          runtime's sources, because a new source differs from them as they differ from each
///          other. A runtime with fewer than two sources of seven or more runs on GPUs also uses
///          the sources of other runtimes. Allocated and reserved bytes share their errors. Step
///          times borrow only step times. If there are own runs, the centre is their mean and the
///          spread is that of the differences within the sources.
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

/// The probabilities that a run fits.
struct Chances {
  double fits = 0;     ///< If need be, because the allocator empties its cache.
  double at_once = 0;  ///< Without that.
};

/// The uncertainty of an estimate.
struct Confidence {
  ByteInterval allocated;
  ByteInterval reserved;
  std::optional<TimeInterval>
      step_time;  ///< Set if the estimate has a time and measured times exist.
  /// With this capacity the replay still ends, to 0.5 %: the allocator empties its cache where it
  /// has to. None if it cannot change a chance: the run fits at once, or the allocated bytes alone
  /// do not fit.
  std::optional<Bytes> needed;
  Chances chances;
  ErrorModel basis;  ///< The one for reserved bytes.
};

/// `predicted` x (1 + e) at both ends of `range`, never below 0.
[[nodiscard]] ByteInterval interval_of(Bytes predicted, const ErrorRange& range);

/// Intervals for the peaks of `estimate`, and the probabilities that the run fits.
///
/// Model:   the run fits if the allocator's need, changed by an error of the samples, plus the
///          outside terms is at most the device's total. The outside terms move together, uniformly
///          between their values and their bounds. To fit at once, the need is the reserved peak;
///          to fit at all, the least capacity with which the replay ends. So a smaller budget has
///          no better chance, as exactly as that capacity is known. Where the replay empties the
///          cache, the interval of the reserved peak ends at the capacity.
[[nodiscard]] Confidence confidence_of(const StepEstimate& estimate, const ir::ParallelPlan& plan,
                                       std::span<const ResidualSet> sets,
                                       const Calibration& own = {});

/// Whether an answer should say that PyTorch empties its cache to fit, or may have to: the run may
/// not fit at once, and can do with notably less than what it reserves.
[[nodiscard]] bool counts_on_emptying(const StepEstimate& estimate, const Confidence& confidence);

/// Below this chance a plan does not fit: the capacity lies above the interval's upper end.
inline constexpr double kLeastChance = 1 - kConfidenceLevel;

/// The verdict that follows from a chance to fit.
///
/// Model:   fits from `kConfidenceLevel` on; does not fit below `kLeastChance`; in between, where
///          the interval straddles the capacity, tight.
[[nodiscard]] Verdict verdict_of(double chance);

/// Sets chances and verdict of an estimate whose errors are known; otherwise the verdict stays that
/// of the replay. A run that fits only after PyTorch has emptied its cache, or may have to, is
/// tight at best.
void settle_verdict(StepEstimate& estimate, const Confidence& confidence);

/// The same with chances that are known.
void settle_chances(StepEstimate& estimate, const Chances& chances);

/// `settle_verdict` with the errors of `sets` and of the user's own runs. What does not depend on
/// the estimate is worked out once for each runtime. Threads: any number.
[[nodiscard]] Judge judge_by(std::vector<ResidualSet> sets, Calibration own = {});

/// What the allocator may need of a plan so that it fits with a chance of at least `chance`.
///
/// Model:   the greatest need with that chance (`confidence_of`), to 1 MiB; at most `total` less
///          the outside terms. If no errors apply, exactly that.
/// Units:   bytes; `total` is the device's, or the budget.
[[nodiscard]] Bytes room_for(double chance, Bytes total, std::span<const OutsideTerm> outside,
                             const ErrorModel& model);

/// Bytes that the allocator may need of `plan` on a device, or in a budget, of `total` bytes with
/// the terms `outside`.
using Room = std::function<Bytes(const ir::ParallelPlan& plan, Bytes total,
                                 std::span<const OutsideTerm> outside)>;

/// `room_for` with the errors of `sets`. Threads: may be called from any number of threads.
[[nodiscard]] Room room_by(std::vector<ResidualSet> sets, double chance);

}  // namespace headroom::cost
