// `fit --program` and `timeline --program`: answers about a program that a dry run has recorded.

#include <array>
#include <utility>

#include "cli/commands/verbs.h"
#include "cli/model_argument.h"
#include "cli/output.h"
#include "cli/program_question.h"
#include "cli/report/program_answer.h"
#include "cli/timeline_format.h"

namespace headroom::cli {
namespace {

Result<ExitCode> run_fit_program(const Arguments& arguments, const Context& context) {
  Result<ProgramQuestion> question = read_program_question(arguments);
  if (!question) {
    return std::move(question).error();
  }
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  add_notes(context, recording_remarks(question->recorded, question->device, question->settings));
  Result<ProgramAnswer> answer = answer_program(std::move(question).value(), folder->path);
  if (!answer) {
    return std::move(answer).error();
  }
  answer->notes = context.notes->lines;
  context.out << (context.json ? program_json(*answer) : program_text(*answer, context.terminal));
  return answer->estimate.verdict == cost::Verdict::kDoesNotFit ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> run_timeline_program(const Arguments& arguments, const Context& context) {
  const Result<TimelineFormat> format = read_timeline_format(arguments);
  if (!format) {
    return format.error();
  }
  const Result<ProgramQuestion> question = read_program_question(arguments);
  if (!question) {
    return question.error();
  }
  add_notes(context, recording_remarks(question->recorded, question->device, question->settings));
  const cost::StepEstimate estimate = judge_program(*question, question->settings);
  return put_timeline(arguments, context,
                      {.format = *format,
                       .estimate = &estimate,
                       .settings = question->settings,
                       .events_in_time = {}});
}

}  // namespace

Command fit_program_command() {
  return {
      .verb = {.name = "fit",
               .summary = "Says whether a recorded program fits on another GPU, in another "
                          "budget or with other settings of PyTorch's allocator",
               .positionals = "--program FILE",
               .detail = "FILE is what headroom dryrun --record FILE writes. The program does not "
                         "run again: what it asked PyTorch's allocator for is replayed.",
               .options = program_question_options(),
               .example = "fit --program train.program.gz --gpu a100-40gb"},
      .run = run_fit_program,
      .when = {"program"}};
}

Command timeline_program_command() {
  std::vector<OptionSpec> options = timeline_options();
  const std::vector<OptionSpec> question = program_question_options();
  options.insert(options.end(), question.begin(), question.end());
  return {.verb = {.name = "timeline",
                   .summary = "Writes every allocation and release of a recorded program to a file",
                   .positionals = "--program FILE",
                   .detail = "FILE is what headroom dryrun --record FILE writes.",
                   .options = std::move(options),
                   .example = "timeline --program train.program.gz --format chrome"},
          .run = run_timeline_program,
          .when = {"program"}};
}

}  // namespace headroom::cli
