#include "validators/confirmation/observed_phases.h"

#include <string>

#include "validators/dryrun/verdict.h"

namespace headroom::check {
namespace {

ir::PhaseName name_of_phase(const DryRunPhase& phase, int steps) {
  if (is_before_steps(phase)) {
    return {.kind = ir::PhaseKind::kLoad};
  }
  if (phase.step > steps) {
    return {.kind = ir::PhaseKind::kEvaluation};
  }
  ir::PhaseName name =
      ir::parse_phase_name("step" + std::to_string(phase.step) + "." + phase.name);
  const bool of_batch =
      name.kind == ir::PhaseKind::kForward || name.kind == ir::PhaseKind::kBackward;
  name.at.micro_batch = of_batch ? phase.micro_batch : 0;
  return name;
}

}  // namespace

std::vector<ObservedPhase> observed_phases(const std::vector<DryRunPhase>& phases, int steps) {
  std::vector<ObservedPhase> measured;
  measured.reserve(phases.size());
  for (const DryRunPhase& phase : phases) {
    measured.push_back(
        {.name = name_of_phase(phase, steps),
         .peaks = {.allocated = phase.peak_allocated, .reserved = phase.peak_reserved}});
  }
  return measured;
}

}  // namespace headroom::check
