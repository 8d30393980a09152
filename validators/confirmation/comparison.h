#pragma once

#include <string>
#include <vector>

#include "costmodel/memory/timeline.h"
#include "validators/confirmation/observed_phases.h"

namespace headroom::check {

/// The predicted and the measured peaks of a phase.
struct PhaseComparison {
  std::string name;  ///< "load", "step2.3.backward", "evaluation".
  PhasePeaks predicted;
  PhasePeaks measured;
  friend bool operator==(const PhaseComparison&, const PhaseComparison&) = default;
};

/// Phase by phase, in the order of the prediction.
///
/// Model:   everything before the first step is one phase, and so is everything after the last. A
///          phase that one side does not tell apart counts to the one before it. A prediction
///          replays only the first micro-batches of a step and the last: those between them are
///          compared with the last but one that was replayed.
/// `micro_batches`: of a step of the measured run.
[[nodiscard]] std::vector<PhaseComparison> compare_phases(
    const std::vector<cost::PhaseMemory>& predicted, const std::vector<ObservedPhase>& measured,
    std::int64_t micro_batches);

/// The highest figures over all phases.
[[nodiscard]] PhasePeaks predicted_peaks(const std::vector<PhaseComparison>& phases);
[[nodiscard]] PhasePeaks measured_peaks(const std::vector<PhaseComparison>& phases);

/// |measured - predicted| / measured; 0 if both are 0.
[[nodiscard]] double relative_error(Bytes predicted, Bytes measured);

}  // namespace headroom::check
