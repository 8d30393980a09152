#include "cli/commands/verbs.h"

#include <utility>
#include <vector>

#include "cli/judged_question.h"
#include "cli/program_question.h"
#include "cli/question.h"
#include "cli/time_options.h"
#include "cli/timeline_format.h"
#include "costmodel/estimate.h"
#include "costmodel/time/export_streams.h"

namespace headroom::cli {
namespace {

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

Result<ExitCode> run_timeline(const Arguments& arguments, const Context& context) {
  const Result<TimelineFormat> format = read_timeline_format(arguments);
  if (!format) {
    return format.error();
  }
  Result<Question> question = read_question(arguments);
  if (!question) {
    return std::move(question).error();
  }
  add_notes(context, question->model, question->request);
  const Result<JudgedQuestion> judged =
      judge_question(arguments, std::move(question).value(), UsualRouting::kPublished);
  if (!judged) {
    return judged.error();
  }
  const ir::ParallelPlan& plan = judged->question.request.plan;
  return put_timeline(arguments, context,
                      {.format = *format,
                       .estimate = &judged->estimate,
                       .settings = plan.allocator,
                       .events_in_time = [&judged, &plan] {
                         return events_in_time(judged->estimate, plan, judged->time.machine);
                       }});
}

}  // namespace

Command timeline_command() {
  std::vector<OptionSpec> options = timeline_options();
  options.push_back(program_option());
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
