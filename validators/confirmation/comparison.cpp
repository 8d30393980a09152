#include "validators/confirmation/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace headroom::check {
namespace {

using ir::PhaseKind;
using ir::PhaseName;

/// The name under which both sides know a phase; nothing for one that adds to the one before it.
std::optional<PhaseName> common_name(const PhaseName& name) {
  switch (name.kind) {
    case PhaseKind::kLoad:
    case PhaseKind::kPeft:
    case PhaseKind::kModel:
    case PhaseKind::kDdp:
    case PhaseKind::kOptimizerObject:
    case PhaseKind::kInitialize:
    case PhaseKind::kFlatten:
    case PhaseKind::kResume:
      return PhaseName{.kind = PhaseKind::kLoad};
    case PhaseKind::kEvaluation:
    case PhaseKind::kCheckpointSave:
    case PhaseKind::kPrefill:
    case PhaseKind::kDecode:
      return PhaseName{.kind = PhaseKind::kEvaluation};
    case PhaseKind::kEngineStep:
      return PhaseName{.kind = PhaseKind::kOptimizer, .at = {.step = name.at.step}};
    case PhaseKind::kEngineStepNoop:
      return std::nullopt;
    default:
      return name;
  }
}

struct Phase {
  PhaseName name;
  PhasePeaks peaks;
};

void raise_to(PhasePeaks& peaks, const PhasePeaks& more) {
  peaks.allocated = std::max(peaks.allocated, more.allocated);
  peaks.reserved = std::max(peaks.reserved, more.reserved);
}

Phase* find_phase(std::vector<Phase>& phases, const PhaseName& name) {
  const auto found = std::ranges::find(phases, name, &Phase::name);
  return found == phases.end() ? nullptr : &*found;
}

/// Adds a phase to the one of its name, or to the last one if it has none.
void add_phase(std::vector<Phase>& phases, const std::optional<PhaseName>& name,
               const PhasePeaks& peaks) {
  Phase* const same = name ? find_phase(phases, *name) : phases.empty() ? nullptr : &phases.back();
  if (same != nullptr) {
    raise_to(same->peaks, peaks);
  } else {
    phases.push_back({.name = name.value_or(PhaseName{.kind = PhaseKind::kLoad}), .peaks = peaks});
  }
}

/// Joins phases that `others` does not have to the ones before them.
std::vector<Phase> known_to(const std::vector<Phase>& others, const std::vector<Phase>& phases) {
  std::vector<Phase> known;
  for (const Phase& phase : phases) {
    const bool has = std::ranges::find(others, phase.name, &Phase::name) != others.end();
    add_phase(known, has ? std::optional(phase.name) : std::nullopt, phase.peaks);
  }
  return known;
}

/// Micro-batches from 1; the only one of a step is the first.
std::int64_t replayed_batch(std::int64_t measured, std::int64_t of, std::int64_t replayed) {
  if (measured == of || replayed == 1) {
    return replayed;
  }
  return std::min(measured, replayed - 1);
}

}  // namespace

std::vector<PhaseComparison> compare_phases(const std::vector<cost::PhaseMemory>& predicted,
                                            const std::vector<ObservedPhase>& measured,
                                            std::int64_t micro_batches) {
  std::vector<Phase> expected;
  std::int64_t replayed = 1;
  for (const cost::PhaseMemory& phase : predicted) {
    add_phase(expected, common_name(phase.name),
              {.allocated = phase.peak_allocated, .reserved = phase.peak_reserved});
    replayed = std::max(replayed, phase.name.at.micro_batch);
  }
  std::vector<Phase> found;
  for (const ObservedPhase& phase : measured) {
    std::optional<PhaseName> name = common_name(phase.name);
    if (name && name->at.micro_batch > 0) {
      name->at.micro_batch =
          replayed == 1 ? 0 : replayed_batch(name->at.micro_batch, micro_batches, replayed);
    }
    add_phase(found, name, phase.peaks);
  }
  const std::vector<Phase> both = known_to(found, expected);
  found = known_to(both, found);
  std::vector<PhaseComparison> compared;
  for (const Phase& phase : both) {
    if (Phase* const other = find_phase(found, phase.name)) {
      compared.push_back(
          {.name = to_text(phase.name), .predicted = phase.peaks, .measured = other->peaks});
    }
  }
  return compared;
}

PhasePeaks predicted_peaks(const std::vector<PhaseComparison>& phases) {
  PhasePeaks peaks;
  for (const PhaseComparison& phase : phases) {
    raise_to(peaks, phase.predicted);
  }
  return peaks;
}

PhasePeaks measured_peaks(const std::vector<PhaseComparison>& phases) {
  PhasePeaks peaks;
  for (const PhaseComparison& phase : phases) {
    raise_to(peaks, phase.measured);
  }
  return peaks;
}

double relative_error(Bytes predicted, Bytes measured) {
  if (predicted == measured) {
    return 0;
  }
  const double off = std::abs(static_cast<double>((measured - predicted).value()));
  return measured == Bytes{0} ? std::numeric_limits<double>::infinity()
                              : off / static_cast<double>(measured.value());
}

}  // namespace headroom::check
