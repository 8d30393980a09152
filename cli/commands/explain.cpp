#include "cli/commands/explain.h"

#include "cli/commands/plan.h"
#include "cli/plan_search.h"

namespace headroom::cli {
namespace {

Result<ExitCode> run_explain(const Arguments& arguments, const Context& context) {
  return run_plan_search(arguments, context, Explaining::kAll);
}

}  // namespace

Command explain_command() {
  return {.verb = {.name = "explain",
                   .summary = "Finds the best plan, and says why it is better than its neighbours",
                   .positionals = "MODEL",
                   .detail =
                       "The options are those of headroom plan. The neighbours are the plans with "
                       "one degree halved or doubled, and the best plans of the other "
                       "frameworks.",
                   .options = plan_search_options(),
                   .example = "explain gpt2 --gpu a100-80gb --gpus 2 --tp 2"},
          .run = run_explain};
}

}  // namespace headroom::cli
