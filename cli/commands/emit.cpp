#include "cli/commands/emit.h"

#include <utility>

#include "cli/output.h"
#include "cli/question.h"
#include "planner/emit/deepspeed.h"

namespace headroom::cli {
namespace {

Result<ExitCode> run_emit(const Arguments& arguments, const Context& context) {
  const std::vector<std::string>& given = arguments.positionals();
  if (given.empty() || given[0] != "deepspeed") {
    return Error::invalid_argument("FRAMEWORK", given.empty() ? "nothing" : given[0], "deepspeed",
                                   "headroom emit deepspeed MODEL --zero 2");
  }
  const Result<PlanQuestion> question = read_plan_question(arguments.without_first_positional());
  if (!question) {
    return question.error();
  }
  print_notes(context.err, question->model, question->request);
  const Result<std::string> config =
      plan::deepspeed_config(question->model.spec, question->request.plan);
  if (!config) {
    return config.error();
  }
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("framework", "deepspeed");
  return put_out(arguments, context, *config, std::move(summary), true);
}

}  // namespace

Command emit_command() {
  std::vector<OptionSpec> options = {output_option()};
  const std::vector<OptionSpec> rest = plan_question_options();
  options.insert(options.end(), rest.begin(), rest.end());
  return {
      .verb = {.name = "emit",
               .summary = "Write the framework's configuration",
               .positionals = "deepspeed MODEL",
               .detail = "The configuration names every key that the plan depends on; headroom fit "
                         "--deepspeed reads it back.",
               .options = std::move(options),
               .example = "emit deepspeed llama-3.1-8b --gpus 8 --zero 2"},
      .run = run_emit};
}

}  // namespace headroom::cli
