#include "gui/charts/timeline_data.h"

#include <algorithm>
#include <utility>

namespace headroom::gui {

Bytes replayed_capacity(const cost::StepEstimate& estimate) {
  constexpr Bytes kUnlimited{std::int64_t{1} << 60};  // No device has as much.
  return estimate.out_of_memory ? kUnlimited : estimate.capacity;
}

std::shared_ptr<const TimelineData> timeline_data(
    std::shared_ptr<const cost::StepEstimate> estimate, const ir::AllocatorSettings& settings,
    const std::stop_token& stop) {
  MemoryHistory history(estimate->program, settings, replayed_capacity(*estimate), stop);
  return std::make_shared<const TimelineData>(TimelineData{
      .estimate = std::move(estimate), .settings = settings, .history = std::move(history)});
}

std::shared_ptr<const TimelineData> timeline_of(const Pinned& pinned, const std::stop_token& stop) {
  return timeline_data({pinned.appraisal, &pinned.appraisal->estimate},
                       replayed_settings(pinned.scenario), stop);
}

std::size_t phase_of(const ir::RankProgram& program, std::size_t event) {
  const auto after = std::ranges::upper_bound(program.phases, event, {}, &ir::Phase::begin);
  return after == program.phases.begin()
             ? 0
             : static_cast<std::size_t>(after - program.phases.begin()) - 1;
}

std::optional<double> same_place(const ir::RankProgram& from, const ir::RankProgram& to,
                                 double event) {
  if (from.phases.empty()) {
    return std::nullopt;
  }
  const ir::Phase& before =
      from.phases[phase_of(from, static_cast<std::size_t>(std::max(event, 0.0)))];
  const auto after = std::ranges::find(to.phases, before.name, &ir::Phase::name);
  if (after == to.phases.end()) {
    return std::nullopt;
  }
  const double length = std::max(1.0, static_cast<double>(before.end - before.begin));
  const double share = (event - static_cast<double>(before.begin)) / length;
  return static_cast<double>(after->begin) + share * static_cast<double>(after->end - after->begin);
}

EventRange peak_step(const cost::StepEstimate& estimate, std::size_t peak) {
  const std::vector<ir::Phase>& phases = estimate.program.phases;
  if (phases.empty()) {
    return {.begin = 0, .end = estimate.program.events.size()};
  }
  const std::size_t phase = phase_of(estimate.program, peak);
  const int step = phases[phase].name.at.step;
  std::size_t first = phase;
  std::size_t last = phase;
  while (step > 0 && first > 0 && phases[first - 1].name.at.step == step) {
    --first;
  }
  while (step > 0 && last + 1 < phases.size() && phases[last + 1].name.at.step == step) {
    ++last;
  }
  return {.begin = phases[first].begin, .end = phases[last].end};
}

}  // namespace headroom::gui
