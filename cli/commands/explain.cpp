#include "cli/commands/explain.h"

#include "cli/commands/plan.h"

namespace headroom::cli {
namespace {

Result<ExitCode> run_explain(const Arguments& arguments, const Context& context) {
  return run_plan_search(arguments, context, Explaining::kAll);
}

}  // namespace

Command explain_command() {
  return {.verb = {.name = "explain",
                   .summary = "Why this plan and not another",
                   .positionals = "MODEL",
                   .detail = "Finds the plan as headroom plan does, then asks the same with each "
                             "degree halved and doubled, and of the other frameworks.",
                   .options = plan_answer_options(),
                   .example = "explain gpt2 --gpu a100-80gb --gpus 2 --tp 2",
                   .model_at = 0},
          .run = run_explain};
}

}  // namespace headroom::cli
