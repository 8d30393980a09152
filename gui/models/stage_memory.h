#pragma once

#include <memory>
#include <stop_token>

#include <QStringList>

#include "gui/whatif/estimate_worker.h"

namespace headroom::gui {

/// The peaks of the stages of a pipeline, in the form that `BreakdownModel` shows.
struct StageMemory {
  /// A phase for each stage, with the peaks of its whole run and the categories at its peak.
  std::shared_ptr<const cost::StepEstimate> peaks;
  QStringList names;  ///< "stage 0, rank 0"
};

/// Whether the plan of `answer` has stages to compare: a pipeline of which no single rank is asked
/// about.
[[nodiscard]] bool has_stages(const Answer& answer);

/// Lowers and replays the first rank of each stage. The stage of the rank that gave the verdict has
/// the verdict's figures.
///
/// Requires `has_stages`.
/// Errors:  those of `cost::lower_replayed`.
[[nodiscard]] Result<std::shared_ptr<const StageMemory>> stage_memory(const Answer& answer,
                                                                      const std::stop_token& stop);

}  // namespace headroom::gui
