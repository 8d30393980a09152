#pragma once

#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/plan/phase_name.h"
#include "validators/dryrun/report.h"

namespace headroom::check {

/// The highest figures of the allocator in a phase.
struct PhasePeaks {
  Bytes allocated;
  Bytes reserved;
  friend bool operator==(const PhasePeaks&, const PhasePeaks&) = default;
};

/// A phase of a run, whoever measured it.
struct ObservedPhase {
  ir::PhaseName name;
  PhasePeaks peaks;
  friend bool operator==(const ObservedPhase&, const ObservedPhase&) = default;
};

/// The phases of a report under the names of a prediction. `steps`: optimizer steps of the run; a
/// forward pass after them is an evaluation. `micro_batches`: of a step; an observer counts on
/// where there is no optimizer.
[[nodiscard]] std::vector<ObservedPhase> observed_phases(const std::vector<DryRunPhase>& phases,
                                                         int steps, std::int64_t micro_batches);

}  // namespace headroom::check
