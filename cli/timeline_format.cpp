#include "cli/timeline_format.h"

#include <array>
#include <span>
#include <utility>

#include "cli/output.h"
#include "costmodel/memory/export.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::cli {
namespace {

constexpr std::array<ir::Word<TimelineFormat>, 3> kFormats = {
    {{"csv", TimelineFormat::kCsv},
     {"chrome", TimelineFormat::kChrome},
     {"pickle", TimelineFormat::kPickle}}};

/// A limit above the memory of any device.
constexpr Bytes kNoLimit{std::int64_t{1} << 60};

std::string content_of(const TimelineContent& content, Bytes capacity) {
  const ir::RankProgram& program = content.estimate->program;
  switch (content.format) {
    case TimelineFormat::kCsv:
      return cost::timeline_csv(program, content.settings, capacity);
    case TimelineFormat::kChrome:
      return cost::chrome_trace(program, content.settings, capacity,
                                content.events_in_time ? content.events_in_time() : "");
    case TimelineFormat::kPickle:
      return cost::memory_viz_pickle(program, content.settings, capacity);
  }
  return {};
}

}  // namespace

std::vector<OptionSpec> timeline_options() {
  return {{"format", "FORMAT", "csv",
           "csv, chrome (ui.perfetto.dev) or pickle (pytorch.org/memory_viz)"},
          output_option(),
          {"no-limit", "", "", "continue where the GPU would run out of memory"}};
}

Result<TimelineFormat> read_timeline_format(const Arguments& arguments) {
  return ir::parse_word<TimelineFormat>(std::span<const ir::Word<TimelineFormat>>(kFormats),
                                        "format", arguments.value("format").value_or("csv"));
}

Result<ExitCode> put_timeline(const Arguments& arguments, const Context& context,
                              const TimelineContent& content) {
  const cost::StepEstimate& estimate = *content.estimate;
  const bool limited = !arguments.has("no-limit");
  if (estimate.out_of_memory && limited) {
    add_notes(context, {"the run is out of memory and ends there; --no-limit shows all of it"});
  }
  const std::string text = content_of(content, limited ? estimate.capacity : kNoLimit);
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("format",
              ir::word_of(std::span<const ir::Word<TimelineFormat>>(kFormats), content.format));
  summary.add("verdict", name_of(estimate.verdict));
  summary.add("events", estimate.program.events.size());
  summary.add("out_of_memory", estimate.out_of_memory && limited);
  return put_out(arguments, context, text, std::move(summary),
                 content.format == TimelineFormat::kChrome);
}

}  // namespace headroom::cli
