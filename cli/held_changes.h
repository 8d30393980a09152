#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/plan_search.h"
#include "costmodel/remedy.h"
#include "planner/search/search_question.h"

namespace headroom::cli {

/// A plan outside the space of a search that fits.
struct HeldChange {
  cost::Remedy remedy;               ///< The changes, and the plan after them.
  std::vector<std::string> command;  ///< The command that answers for the plan.
};

/// Changes of what a search holds, such as the optimizer or the form of the loss, after which the
/// leanest plan of its space fits on the same GPUs. The remedies of `fit` for that plan; empty if
/// none of them mends it.
[[nodiscard]] std::vector<HeldChange> changes_of_leanest(const Arguments& arguments,
                                                         const PlanSearch& search,
                                                         const plan::SearchQuestion& question,
                                                         const ir::ParallelPlan& leanest);

/// The changes in words.
[[nodiscard]] std::string change_words(const HeldChange& change);
/// The changes as text, each with its command.
[[nodiscard]] std::string held_change_lines(const std::vector<HeldChange>& changes);

}  // namespace headroom::cli
