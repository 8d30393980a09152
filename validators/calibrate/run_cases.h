#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/calibrate/bench.h"
#include "validators/calibrate/measurements.h"

namespace headroom::calibrate {

/// The progress of the measurements.
struct CaseProgress {
  std::size_t done = 0;
  std::size_t all = 0;
  const Case* next = nullptr;  ///< The case that begins; nullptr: everything is measured.
};

/// The calls that happen around the measurements.
struct CaseObserver {
  /// Called before each case and at the end.
  std::function<void(const CaseProgress&)> progress;
  /// Asked before each case: true ends the measurements. What has been measured stays.
  std::function<bool()> stop;
};

/// Measures what `writer` has not yet, in order, and writes each at once. Cases whose repetitions
/// lie too far apart are measured once more, because other programs may have disturbed them.
///
/// Returns whether every case has been measured.
/// Errors:  those of `Bench::measure` and of `MeasurementWriter::add`.
[[nodiscard]] Result<bool> run_cases(Bench& bench, const std::vector<Case>& cases,
                                     MeasurementWriter& writer, const CaseObserver& observer);

}  // namespace headroom::calibrate
