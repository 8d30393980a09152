#include "tests/gpu/executor/memory_checks.h"

#include <algorithm>

namespace headroom::test {
namespace {

std::string apart(const std::string& what, Bytes measured, Bytes predicted) {
  return what + " is " + std::to_string(measured.value()) + ", predicted " +
         std::to_string(predicted.value());
}

}  // namespace

Bytes highest_reserved(const std::vector<cost::PhaseMemory>& phases) {
  Bytes highest;
  for (const cost::PhaseMemory& phase : phases) {
    highest = std::max(highest, phase.peak_reserved);
  }
  return highest;
}

void expect_prediction(const exec::Execution& execution, const exec::RankRun& run, Bytes capacity,
                       const std::string& name, Outcome& outcome) {
  const cost::MemoryTimeline predicted = exec::predict_rank(execution, capacity);
  outcome.expect(run.out_of_memory.has_value() == predicted.out_of_memory.has_value(),
                 name + ": out of memory is predicted");
  if (run.out_of_memory && predicted.out_of_memory) {
    outcome.expect(run.out_of_memory->event == predicted.out_of_memory->event,
                   name + ": another request fails than predicted");
    return;
  }
  outcome.expect(run.phases.size() == predicted.phases.size(), name + ": as many phases");
  for (std::size_t i = 0; i < std::min(run.phases.size(), predicted.phases.size()); ++i) {
    const cost::PhaseMemory& real = run.phases[i];
    const cost::PhaseMemory& model = predicted.phases[i];
    const std::string phase = name + ", phase " + std::to_string(i);
    outcome.expect(real.name == model.name, phase + ": another phase");
    outcome.expect(real.peak_allocated == model.peak_allocated,
                   apart(phase + ": peak allocated", real.peak_allocated, model.peak_allocated));
    outcome.expect(real.peak_reserved == model.peak_reserved,
                   apart(phase + ": peak reserved", real.peak_reserved, model.peak_reserved));
    outcome.expect(real.allocated_after == model.allocated_after,
                   apart(phase + ": allocated after", real.allocated_after, model.allocated_after));
  }
  const Bytes reserved = highest_reserved(predicted.phases);
  if (run.device.can_compute == 0) {
    outcome.expect(run.driver == reserved, apart(name + ": driver", run.driver, reserved));
  } else {
    // The driver and libraries take more memory while they run.
    constexpr double kTolerance = 0.005;
    const double share = static_cast<double>((run.driver - reserved).value()) /
                         static_cast<double>(std::max(reserved, Bytes{kGiB}).value());
    outcome.expect(share >= 0 && share <= kTolerance,
                   apart(name + ": driver", run.driver, reserved));
  }
}

}  // namespace headroom::test
