#pragma once

#include <string>

#include "cli/plan_search.h"
#include "model_ir/base/result.h"
#include "planner/explain/explain.h"
#include "planner/explain/infeasible.h"

namespace headroom::cli {

/// The plan in one line, as its framework says it (`ir::Runtime::describe`).
[[nodiscard]] std::string plan_words(const ir::ParallelPlan& plan);
/// One line: "tp 8: 12.3 ms (4.1 %) slower: ...".
[[nodiscard]] std::string why_line(const plan::PlanResult& found, const plan::WhyNot& why);
/// "10 GiB of device memory", "16 GPUs", "--micro-batch 2".
[[nodiscard]] std::string mend_words(const plan::Mend& mend);
/// What makes a request feasible, a line each.
[[nodiscard]] std::string mend_lines(const plan::Infeasibility& why);

/// Reads "tp=8" and the like.
///
/// Errors:  kInvalidArgument naming the axes.
[[nodiscard]] Result<plan::Alternative> parse_alternative(const std::string& text);

}  // namespace headroom::cli
