#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "costmodel/estimate.h"
#include "gui/charts/memory_history.h"
#include "gui/models/compare_model.h"

namespace headroom::gui {

/// A replayed program and the memory after each of its events.
struct TimelineData {
  std::shared_ptr<const cost::StepEstimate> estimate;  ///< Never null.
  ir::AllocatorSettings settings;                      ///< The settings of the replay.
  MemoryHistory history;
};

/// Replays the program of `estimate` as `cost::judge` does: without a limit if it does not fit.
[[nodiscard]] std::shared_ptr<const TimelineData> timeline_data(
    std::shared_ptr<const cost::StepEstimate> estimate, const ir::AllocatorSettings& settings,
    const std::stop_token& stop = {});

/// The same for what is pinned.
[[nodiscard]] std::shared_ptr<const TimelineData> timeline_of(const Pinned& pinned,
                                                              const std::stop_token& stop = {});

/// The capacity on which `estimate`'s timeline was replayed.
[[nodiscard]] Bytes replayed_capacity(const cost::StepEstimate& estimate);

/// A range of events [begin, end).
struct EventRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
/// The events of the step that holds the peak, or of the phase if it is outside the steps.
[[nodiscard]] EventRange peak_step(const cost::StepEstimate& estimate, std::size_t peak);

/// The place of event `event` of `from` in `to`: as far into the phase of the same name. Nothing if
/// `to` has no such phase.
[[nodiscard]] std::optional<double> same_place(const ir::RankProgram& from,
                                               const ir::RankProgram& to, double event);

/// The phase of an event; the last if there is none.
[[nodiscard]] std::size_t phase_of(const ir::RankProgram& program, std::size_t event);

}  // namespace headroom::gui
