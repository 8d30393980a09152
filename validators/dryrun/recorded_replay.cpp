#include "validators/dryrun/recorded_replay.h"

#include <array>

namespace headroom::check {
namespace {

struct Figure {
  std::string_view what;
  Bytes DryRunPhase::*recorded;
  Bytes cost::PhaseMemory::*replayed;
};

constexpr std::array<Figure, 6> kFigures = {
    {{"peak allocated", &DryRunPhase::peak_allocated, &cost::PhaseMemory::peak_allocated},
     {"peak reserved", &DryRunPhase::peak_reserved, &cost::PhaseMemory::peak_reserved},
     {"peak requested", &DryRunPhase::peak_requested, &cost::PhaseMemory::peak_requested},
     {"allocated at its end", &DryRunPhase::allocated_after, &cost::PhaseMemory::allocated_after},
     {"reserved at its end", &DryRunPhase::reserved_after, &cost::PhaseMemory::reserved_after},
     {"requested at its end", &DryRunPhase::requested_after, &cost::PhaseMemory::requested_after}}};

}  // namespace

ir::AllocatorSettings standin_settings() {
  ir::AllocatorSettings settings;
  settings.segments = ir::SegmentPlaces::kRising;
  return settings;
}

cost::DeviceMemory recorded_memory(const RecordedProgram& recorded) {
  const RecordedDevice& device = recorded.device;
  cost::DeviceMemory memory{.capacity = device.total - device.outside - recorded.other};
  if (const double fraction = recorded.history.memory_fraction; fraction < 1) {
    memory.allowed =
        Bytes{static_cast<std::int64_t>(fraction * static_cast<double>(device.total.value()))};
  }
  return memory;
}

std::vector<ReplayDifference> replay_differences(const RecordedProgram& recorded,
                                                 const cost::MemoryTimeline& replay) {
  std::vector<ReplayDifference> differences;
  for (std::size_t phase = 0; phase < recorded.phases.size(); ++phase) {
    const cost::PhaseMemory replayed =
        phase < replay.phases.size() ? replay.phases[phase] : cost::PhaseMemory{};
    for (const Figure& figure : kFigures) {
      const Bytes told = recorded.phases[phase].*figure.recorded;
      if (told != replayed.*figure.replayed) {
        differences.push_back({.phase = phase,
                               .what = figure.what,
                               .recorded = told,
                               .replayed = replayed.*figure.replayed});
      }
    }
  }
  return differences;
}

}  // namespace headroom::check
