#include "cli/commands/verbs.h"

#include <array>
#include <utility>
#include <vector>

#include "cli/judged_question.h"
#include "cli/output.h"
#include "cli/question.h"
#include "cli/time_options.h"
#include "costmodel/estimate.h"
#include "costmodel/memory/export.h"
#include "costmodel/time/export_streams.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::cli {
namespace {

enum class Format : std::uint8_t { kCsv, kChrome, kPickle };

constexpr std::array<ir::Word<Format>, 3> kFormats = {
    {{"csv", Format::kCsv}, {"chrome", Format::kChrome}, {"pickle", Format::kPickle}}};

/// A limit above the memory of any device.
constexpr Bytes kNoLimit{std::int64_t{1} << 60};

/// The events of streams and stages over time, if the machine is known.
std::string events_in_time(const cost::StepEstimate& estimate, const ir::ParallelPlan& plan,
                           const std::optional<cost::Machine>& machine) {
  if (!machine) {
    return {};
  }
  const cost::ProgramTime time =
      cost::price_program(estimate.program, plan, cost::prices_on(*machine, plan));
  const bool staged = estimate.time && estimate.time->pipeline;
  return cost::stream_events(estimate.program, time.timeline,
                             staged ? &*estimate.time->pipeline : nullptr);
}

std::string content_of(Format format, const cost::StepEstimate& estimate,
                       const ir::ParallelPlan& plan, Bytes capacity,
                       const std::optional<cost::Machine>& machine) {
  const ir::RankProgram& program = estimate.program;
  const ir::AllocatorSettings& settings = plan.allocator;
  switch (format) {
    case Format::kCsv:
      return cost::timeline_csv(program, settings, capacity);
    case Format::kChrome:
      return cost::chrome_trace(program, settings, capacity,
                                events_in_time(estimate, plan, machine));
    case Format::kPickle:
      return cost::memory_viz_pickle(program, settings, capacity);
  }
  return {};
}

Result<ExitCode> run_timeline(const Arguments& arguments, const Context& context) {
  const std::string word = arguments.value("format").value_or("csv");
  const Result<Format> format =
      ir::parse_word<Format>(std::span<const ir::Word<Format>>(kFormats), "format", word);
  if (!format) {
    return format.error();
  }
  Result<Question> question = read_question(arguments);
  if (!question) {
    return std::move(question).error();
  }
  add_notes(context, question->model, question->request);
  const Result<JudgedQuestion> judged = judge_question(arguments, std::move(question).value());
  if (!judged) {
    return judged.error();
  }
  const cost::StepEstimate& estimate = judged->estimate;
  const bool limited = !arguments.has("no-limit");
  if (estimate.out_of_memory && limited) {
    add_notes(context, {"the run is out of memory and ends there; --no-limit shows all of it"});
  }
  const std::string content =
      content_of(*format, estimate, judged->question.request.plan,
                 limited ? estimate.capacity : kNoLimit, judged->time.machine);
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("format", word);
  summary.add("verdict", name_of(estimate.verdict));
  summary.add("events", estimate.program.events.size());
  summary.add("out_of_memory", estimate.out_of_memory && limited);
  return put_out(arguments, context, content, std::move(summary), *format == Format::kChrome);
}

}  // namespace

Command timeline_command() {
  std::vector<OptionSpec> options = {
      {"format", "FORMAT", "csv",
       "csv, chrome (ui.perfetto.dev) or pickle (pytorch.org/memory_viz)"},
      output_option(),
      {"no-limit", "", "", "continue where the GPU would run out of memory"}};
  const std::vector<OptionSpec> machine = machine_options();
  options.insert(options.end(), machine.begin(), machine.end());
  const std::vector<OptionSpec> rest = question_options();
  options.insert(options.end(), rest.begin(), rest.end());
  return {.verb = {.name = "timeline",
                   .summary = "Writes every allocation and release of a training run to a file",
                   .positionals = "MODEL",
                   .detail = "MODEL and the options about the run are those of headroom fit.",
                   .options = std::move(options),
                   .example = "timeline llama-3.2-1b --gpu l4 --seq 512 --format csv",
                   .model_at = 0,
                   .takes_own_options = true},
          .run = run_timeline};
}

}  // namespace headroom::cli
