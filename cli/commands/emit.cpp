#include "cli/commands/verbs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/plan_options.h"
#include "cli/question.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

/// A file format that some framework reads, and the framework.
struct KnownFormat {
  const ir::Runtime* runtime = nullptr;
  ir::ConfigurationFormat format;
};

std::vector<KnownFormat> known_formats() {
  std::vector<KnownFormat> known;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (const ir::ConfigurationFormat& format : runtime->configuration_formats()) {
      known.push_back({.runtime = runtime, .format = format});
    }
  }
  return known;
}

std::vector<std::string> names_of(const std::vector<KnownFormat>& known) {
  std::vector<std::string> names;
  for (const KnownFormat& one : known) {
    names.emplace_back(one.format.name);
  }
  return names;
}

/// A command line that writes such a file, without the program's name.
std::string command_of(const KnownFormat& known, std::string_view model) {
  return "emit " + std::string(known.format.name) + " " + std::string(model) + " " +
         std::string(known.format.options);
}

Result<KnownFormat> read_format(const std::vector<std::string>& given) {
  const std::vector<KnownFormat> known = known_formats();
  for (const KnownFormat& one : known) {
    if (!given.empty() && one.format.name == given[0]) {
      return one;
    }
  }
  return Error::invalid_argument("FRAMEWORK", given.empty() ? "nothing" : given[0],
                                 ir::join(names_of(known)),
                                 "headroom " + command_of(known.front(), "MODEL"));
}

/// Refuses a plan whose framework does not read the file format.
Status check_framework(const KnownFormat& asked, const ir::ParallelPlan& plan, bool named) {
  if (plan.runtime == asked.runtime->name()) {
    return ok();
  }
  std::string own;
  for (const ir::ConfigurationFormat& format : ir::runtime_of(plan).configuration_formats()) {
    own += (own.empty() ? "" : " or ") + std::string(format.name);
  }
  const std::string framework(asked.runtime->name());
  if (!named && own.empty()) {
    return Error::invalid_argument("FRAMEWORK",
                                   std::string(asked.format.name) +
                                       " is asked for, but no option of " + framework + " is given",
                                   {}, "add " + std::string(asked.format.options));
  }
  return Error::invalid_argument(
      "runtime", plan.runtime, "a plan for " + framework,
      own.empty() ? "use --runtime " + framework
                  : "headroom emit " + own + " writes the file that " + plan.runtime + " reads");
}

/// Names the plan's options that the file does not hold; no note if there are none.
void note_left_out(const Context& context, const ir::ConfigurationFormat& format,
                   const ir::ParallelPlan& plan, const ir::ModelSpec& model) {
  std::string words;
  for (const OptionValue& option : options_of(plan, model)) {
    if (format.holds != nullptr && !format.holds(plan, option.name)) {
      words += " --" + option.name + (option.value.empty() ? "" : " " + option.value);
    }
  }
  if (!words.empty()) {
    add_notes(context,
              {"the file cannot hold" + words +
               ": set these in the training script and its environment, and repeat them with "
               "headroom fit --" +
               std::string(format.option) + " FILE"});
  }
}

Result<ExitCode> run_emit(const Arguments& arguments, const Context& context) {
  const Result<KnownFormat> asked = read_format(arguments.positionals());
  if (!asked) {
    return asked.error();
  }
  const Result<PlanQuestion> question = read_plan_question(arguments.without_first_positional());
  if (!question) {
    return question.error();
  }
  add_notes(context, question->model, question->request);
  const ir::ParallelPlan& plan = question->request.plan;
  if (Status own = check_framework(*asked, plan, arguments.has("runtime")); !own) {
    return std::move(own).error();
  }
  if (Status valid = ir::check_plan(question->model.spec, plan); !valid) {
    return std::move(valid).error();
  }
  const Result<std::string> config =
      asked->runtime->emit(question->model.spec, plan, asked->format.name);
  if (!config) {
    return config.error();
  }
  note_left_out(context, asked->format, plan, question->model.spec);
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("framework", asked->format.name);
  return put_out(arguments, context, *config, std::move(summary), true);
}

}  // namespace

Command emit_command() {
  const std::vector<KnownFormat> known = known_formats();
  std::string positional;
  std::string read_back;
  for (const KnownFormat& one : known) {
    positional += (positional.empty() ? "" : "|") + std::string(one.format.name);
    read_back += (read_back.empty() ? "--" : " or --") + std::string(one.format.option);
  }
  std::vector<OptionSpec> options = {output_option()};
  const std::vector<OptionSpec> rest = plan_question_options();
  options.insert(options.end(), rest.begin(), rest.end());
  return {
      .verb = {.name = "emit",
               .summary = "Writes the configuration file of a framework",
               .positionals = positional + " MODEL",
               .detail = "The options are those of headroom fit. The file sets every key on which "
                         "the prediction depends; headroom fit " +
                         read_back +
                         " FILE reads it. Options of the training script and its "
                         "environment, such as --checkpointing, are not in the file; a note names "
                         "them.",
               .options = std::move(options),
               .example = command_of(known.front(), "llama-3.1-8b --gpus 8"),
               .model_at = 1,
               .takes_own_options = true},
      .run = run_emit};
}

}  // namespace headroom::cli
