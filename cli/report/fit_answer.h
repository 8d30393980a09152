#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/question.h"
#include "cli/routing.h"
#include "cli/terminal.h"
#include "cli/time_options.h"
#include "costmodel/confidence.h"
#include "costmodel/estimate.h"
#include "costmodel/live_groups.h"
#include "costmodel/remedies.h"
#include "costmodel/speedups.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

/// All data of the answer of `fit`, before it is put into words.
struct FitAnswer {
  const Arguments& arguments;
  Question question;
  cost::StepEstimate estimate;
  cost::Confidence confidence;
  std::vector<cost::LiveGroup> live;       ///< At the peak, largest sum first.
  std::optional<cost::Remedies> remedies;  ///< Unset if it fits.
  TimeRequest time;
  std::optional<RoutingAnswer> routing;  ///< If the load of a rank depends on the routing.
  std::optional<WorstRouting> worst;     ///< If the framework's lowering follows loads.
  std::vector<cost::Speedup> speedups;   ///< If the user requested them.
  std::vector<std::string> notes;        ///< The notes shown on standard error.
};

/// (reserved - allocated) / reserved at the peak: the share of reserved memory that is not
/// allocated.
[[nodiscard]] double fragmentation_of(const cost::StepEstimate& estimate);

/// Whether the errors of measured runs apply to the question's GPU: those of the table for the
/// vendor that was measured, the user's own runs for any.
[[nodiscard]] bool errors_apply(const FitAnswer& answer);

/// Whether the remedies for the GPUs asked about suffice.
[[nodiscard]] bool mends(const cost::Remedies& remedies);

/// The command to run next: the first remedy, the same on more GPUs, or the export of the timeline.
/// If nothing fits: which resource is short and by how much.
[[nodiscard]] std::string next_command(const FitAnswer& answer);

/// The same as the last line of a text.
[[nodiscard]] std::string next_line(const FitAnswer& answer, const Terminal& terminal);

/// The answer as one JSON document (`configs/schema/fit.schema.json`). Bytes are exact integers.
[[nodiscard]] std::string fit_json(const FitAnswer& answer);
/// The same as a value, for documents that contain it.
[[nodiscard]] ir::JsonValue fit_document(const FitAnswer& answer);
/// The answer on one screen of 80 columns: the verdict first, then its reasons, then what to do.
[[nodiscard]] std::string fit_text(const FitAnswer& answer, const Terminal& terminal);

}  // namespace headroom::cli
