#include "cli/commands/verbs.h"

#include <algorithm>
#include <utility>

#include "cli/calibration.h"
#include "cli/fit_question.h"
#include "cli/plan_file.h"
#include "cli/program_question.h"
#include "cli/question.h"
#include "cli/report/fit_answer.h"
#include "cli/report/host_text.h"
#include "cli/report/plan_commands.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

/// What `--script` asks for.
std::string script_of(const FitAnswer& answer, const Context& context) {
  if (!answer.arguments.has("script")) {
    return {};
  }
  const Question& question = answer.question;
  const std::int64_t node =
      answer.time.machine ? answer.time.machine->topology.devices_per_node : 8;
  return commands_text(commands_of(plan_file_of(answer.arguments, question.model, &question.device,
                                                question.request.plan),
                                   question.model.spec, node),
                       context.terminal);
}

Result<ExitCode> run_fit(const Arguments& arguments, const Context& context) {
  Result<Question> question = read_question(arguments);
  if (!question) {
    return std::move(question).error();
  }
  std::vector<std::string> notes = question->model.notes;
  notes.insert(notes.end(), question->request.notes.begin(), question->request.notes.end());
  const ir::ParallelPlan& plan = question->request.plan;
  const std::vector<std::string> of_device =
      ir::runtime_of(plan).device_notes(plan, question->device.traits);
  // The text has no room for the whole tree.
  const cost::TreeWalk tree = context.json ? cost::TreeWalk::kAlways : cost::TreeWalk::kNone;
  Result<FitAnswer> answer = answer_fit(arguments, std::move(question).value(), tree);
  if (!answer) {
    // The notes about the GPU describe how it runs the plan, which was refused.
    std::erase_if(notes, [&of_device](const std::string& note) {
      return std::ranges::find(of_device, note) != of_device.end();
    });
    add_notes(context, notes);
    return std::move(answer).error();
  }
  add_notes(context, notes);
  add_notes(context, host_notes(answer->estimate.host, answer->question.device));
  answer->notes = context.notes->lines;
  context.out << (context.json ? fit_json(*answer)
                               : fit_text(*answer, context.terminal) + script_of(*answer, context));
  const cost::StepEstimate& estimate = answer->estimate;
  return cost::is_yes(estimate.verdict, estimate.chance) ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace

Command fit_command() {
  std::vector<OptionSpec> options = question_options();
  for (const std::vector<OptionSpec>& more : {time_options(), calibration_options()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  options.push_back(routing_option());
  options.push_back({"script", "", "",
                     "also show how the framework is started with the plan, and what its script "
                     "needs"});
  options.push_back(program_option());
  options.push_back({"faster", "", "", "also list changes that make a step faster"});
  return {
      .verb =
          {.name = "fit",
           .summary = "Says whether a training run fits on the GPUs, how long a step takes, and "
                      "what to change if it does not fit",
           .positionals = "MODEL",
           .detail =
               "MODEL is a name that headroom catalog models lists, or a file: a config.json, the "
               "folder with it, a model.safetensors.index.json in that folder, or a .gguf "
               "file. - reads a config.json from standard input.",
           .options = std::move(options),
           .example = "fit llama-3.1-8b --gpu a100-80gb --checkpointing full",
           .model_at = 0,
           .takes_own_options = true},
      .run = run_fit};
}

}  // namespace headroom::cli
