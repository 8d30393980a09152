#include "cli/commands/verbs.h"

#include <algorithm>

#include "cli/comparison.h"
#include "cli/judged_question.h"
#include "cli/question.h"
#include "cli/report/comparison_report.h"

namespace headroom::cli {
namespace {

VerbSpec compare_verb() {
  std::vector<OptionSpec> options = {vary_option()};
  for (const std::vector<OptionSpec>& more : {question_options(), judging_options()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  return {.name = "compare",
          .summary = "Sets plans side by side: what differs, and what that does to memory and time",
          .positionals = "MODEL|FILE...",
          .detail =
              "MODEL is what headroom fit takes, with the options that are typed; FILE is a "
              "plan file, as headroom plan --output writes it. All options about the run are "
              "those of fit. Exit code 0 if fit would say yes to one of them.",
          .options = std::move(options),
          .example = "compare llama-3.2-1b --gpu h100 --vary checkpointing=none,full",
          .model_at = 0,
          .takes_own_options = true};
}

Result<ExitCode> run_compare(const Arguments& arguments, const Context& context) {
  const Result<std::vector<ComparedPlan>> plans = compare_plans(compare_verb(), arguments);
  if (!plans) {
    return plans.error();
  }
  add_notes(context, numbered_notes(*plans));
  context.out << (context.json ? comparison_json(*plans, context.notes->lines)
                               : comparison_text(*plans, context.terminal));
  const bool any = std::ranges::any_of(
      *plans, [](const ComparedPlan& plan) { return !plan.refusal && plan.yes; });
  return any ? ExitCode::kYes : ExitCode::kNo;
}

}  // namespace

Command compare_command() {
  return {.verb = compare_verb(), .run = run_compare};
}

}  // namespace headroom::cli
