#pragma once

#include <string>

#include "cli/arguments.h"
#include "cli/plan_search.h"
#include "model_ir/base/result.h"
#include "planner/explain/explain.h"
#include "planner/explain/infeasible.h"

namespace headroom::cli {

/// The plan in one line, in the words of its framework (`ir::Runtime::describe`).
[[nodiscard]] std::string plan_words(const ir::ParallelPlan& plan);
/// A line such as "tp 8: 12.3 ms (4.1 %) slower: ...".
[[nodiscard]] std::string why_line(const plan::PlanResult& found, const plan::WhyNot& why);
/// A change in words: "10 GiB of device memory", "16 GPUs", "--micro-batch 2".
[[nodiscard]] std::string mend_words(const Arguments& arguments, const plan::Mend& mend);
/// How the plan of a change was proven, and which plan that is.
[[nodiscard]] std::string proof_words(const plan::Mend& mend);
/// The command that asks the same question with the change: the options that were given, and the
/// changed ones. A budget is rounded up, and the batch of a step is named with a number of GPUs, so
/// that the plan fits when the command is typed.
[[nodiscard]] std::string mend_command(const Arguments& arguments, const PlanSearch& search,
                                       const plan::Mend& mend);
/// The command that asks the question of `arguments` again, with the options that were given.
[[nodiscard]] std::string search_command(const Arguments& arguments);
/// The changes that make a request feasible, each with its command.
[[nodiscard]] std::string mend_lines(const Arguments& arguments, const PlanSearch& search,
                                     const plan::Infeasibility& why);

/// Parses a text such as "tp=8".
///
/// Errors:  kInvalidArgument, which lists the axes.
[[nodiscard]] Result<plan::Alternative> parse_alternative(const std::string& text);

}  // namespace headroom::cli
