#include "cli/held_changes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/plan_file.h"
#include "cli/report/plan_commands.h"
#include "cli/report/why_text.h"
#include "costmodel/expert_load.h"
#include "costmodel/remedies.h"
#include "costmodel/remedy_judge.h"
#include "model_ir/plan/plan_words.h"
#include "planner/search/evaluator.h"

namespace headroom::cli {

std::vector<HeldChange> changes_of_leanest(const Arguments& arguments, const PlanSearch& search,
                                           const plan::SearchQuestion& question,
                                           const ir::ParallelPlan& leanest) {
  // The search for a plan has taken long already.
  constexpr Seconds kLimit{5};
  if (question.stop.asked()) {
    return {};
  }
  const Result<cost::StepEstimate> found =
      plan::judged_replay(question, leanest, question.budget, &question.machine);
  if (!found) {
    return {};
  }
  const double load = cost::busy_load_of(search.model.spec, leanest, question.imbalance);
  const ir::ParallelPlan loaded = load == 1 ? leanest : cost::with_load(leanest, load);
  const cost::RemedyQuestion asked{.model = search.model.spec,
                                   .plan = loaded,
                                   .device = question.device,
                                   .budget = question.budget,
                                   .count = 2,
                                   .tree = cost::TreeWalk::kNone,
                                   .machine = &question.machine,
                                   .load = load,
                                   .limit = kLimit,
                                   .judge = question.judge};
  std::vector<HeldChange> changes;
  for (cost::Remedy& remedy : cost::find_remedies(asked, *found).cheapest) {
    // The best of each kind is enough: the search has other answers, too.
    const bool known = std::ranges::any_of(changes, [&](const HeldChange& other) {
      return trains_otherwise(other.remedy) == trains_otherwise(remedy);
    });
    const bool sure = !remedy.chance || *remedy.chance >= question.confidence;
    if (known || !sure || !cost::is_yes(remedy.verdict, remedy.chance)) {
      continue;
    }
    if (load != 1) {
      remedy.plan = cost::with_load(remedy.plan, 1);  // It is assumed of every plan.
    }
    const ir::PlanFile file = plan_file_of(arguments, search.model, &search.device, remedy.plan);
    changes.push_back(
        {.remedy = std::move(remedy),
         .command =
             commands_of(file, search.model.spec, search.machine.topology.devices_per_node).fit});
  }
  return changes;
}

std::string change_words(const HeldChange& change) {
  std::vector<std::string> words;
  for (const cost::Change& one : change.remedy.changes) {
    if (std::ranges::find(words, one.what) == words.end()) {
      words.emplace_back(one.what);  // A change may be made twice: the batch is halved again.
    }
  }
  return ir::join(words);
}

std::string held_change_lines(const std::vector<HeldChange>& changes) {
  std::string text;
  for (const HeldChange& change : changes) {
    const cost::Remedy& remedy = change.remedy;
    const std::string kind = trains_otherwise(remedy)
                                 ? "to fit, change the training: "
                                 : "to fit, change an option that the search keeps fixed: ";
    text += kind + change_words(change) +
            " (replayed: " + std::string(cost::verdict_words(remedy.verdict, remedy.chance)) +
            "): " + plan_words(remedy.plan) + "\n  " + one_line(change.command) + "\n";
  }
  return text;
}

}  // namespace headroom::cli
