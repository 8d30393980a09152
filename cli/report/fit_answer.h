#pragma once

#include <optional>
#include <vector>

#include "cli/arguments.h"
#include "cli/question.h"
#include "cli/routing.h"
#include "cli/time_options.h"
#include "costmodel/confidence.h"
#include "costmodel/estimate.h"
#include "costmodel/live_groups.h"
#include "costmodel/remedies.h"
#include "costmodel/speedups.h"

namespace headroom::cli {

/// Everything that `fit` says, before it is worded.
struct FitAnswer {
  const Arguments& arguments;
  Question question;
  cost::StepEstimate estimate;
  cost::Confidence confidence;
  std::vector<cost::LiveGroup> live;       ///< At the peak, largest sum first.
  std::optional<cost::Remedies> remedies;  ///< Unless it fits.
  TimeRequest time;
  std::optional<RoutingAnswer> routing;  ///< If --routing-imbalance was given.
  std::vector<cost::Speedup> speedups;   ///< If asked for.
};

/// (reserved - allocated) / reserved at the peak: what the allocator holds without using it.
[[nodiscard]] double fragmentation_of(const cost::StepEstimate& estimate);

/// Whether the remedies for the GPUs asked about suffice.
[[nodiscard]] bool mends(const cost::Remedies& remedies);

/// The command to run next: the first remedy, the same on more GPUs, or the export of the timeline.
/// If nothing fits: which resource is short and by how much.
[[nodiscard]] std::string next_command(const FitAnswer& answer);

}  // namespace headroom::cli
