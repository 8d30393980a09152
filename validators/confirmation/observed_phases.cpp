#include "validators/confirmation/observed_phases.h"

#include <algorithm>
#include <string>

#include "validators/dryrun/verdict.h"

namespace headroom::check {
namespace {

ir::PhaseName name_of_phase(const DryRunPhase& phase, int steps, std::int64_t micro_batches) {
  if (is_before_steps(phase)) {
    return {.kind = ir::PhaseKind::kLoad};
  }
  const std::int64_t before = std::max<std::int64_t>(phase.micro_batch, 1) - 1;
  const std::int64_t step = phase.step + before / micro_batches;
  if (step > steps) {
    return {.kind = ir::PhaseKind::kEvaluation};
  }
  ir::PhaseName name = ir::parse_phase_name("step" + std::to_string(step) + "." + phase.name);
  const bool of_batch =
      name.kind == ir::PhaseKind::kForward || name.kind == ir::PhaseKind::kBackward;
  name.at.micro_batch = of_batch ? before % micro_batches + 1 : 0;
  return name;
}

}  // namespace

std::vector<ObservedPhase> observed_phases(const std::vector<DryRunPhase>& phases, int steps,
                                           std::int64_t micro_batches) {
  std::vector<ObservedPhase> measured;
  measured.reserve(phases.size());
  for (const DryRunPhase& phase : phases) {
    measured.push_back(
        {.name = name_of_phase(phase, steps, micro_batches),
         .peaks = {.allocated = phase.peak_allocated, .reserved = phase.peak_reserved}});
  }
  return measured;
}

}  // namespace headroom::check
