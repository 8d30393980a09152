#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/command.h"
#include "costmodel/estimate.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cli {

enum class TimelineFormat : std::uint8_t { kCsv, kChrome, kPickle };

/// --format, --output and --no-limit.
[[nodiscard]] std::vector<OptionSpec> timeline_options();

/// Reads --format. Errors: kInvalidArgument.
[[nodiscard]] Result<TimelineFormat> read_timeline_format(const Arguments& arguments);

/// A program that is to be written.
struct TimelineContent {
  TimelineFormat format = TimelineFormat::kCsv;
  const cost::StepEstimate* estimate;
  ir::AllocatorSettings settings;
  /// Events of streams and stages over time for a Chrome trace (`cost::stream_events`).
  std::function<std::string()> events_in_time;
};

/// Writes the whole timeline, up to where it runs out of memory unless --no-limit is given.
///
/// Errors:  those of `put_out`.
[[nodiscard]] Result<ExitCode> put_timeline(const Arguments& arguments, const Context& context,
                                            const TimelineContent& content);

}  // namespace headroom::cli
