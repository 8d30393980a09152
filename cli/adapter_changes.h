#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/plan_search.h"
#include "planner/explain/infeasible.h"
#include "planner/search/stop_signal.h"

namespace headroom::cli {

/// A plan that trains adapters where none fits that trains every parameter, or quantises what the
/// adapters leave frozen where none fits that keeps it in 16 bits.
struct AdapterChange {
  std::string change;   ///< "--lora r=16", "--qlora r=16 and 2 GPUs".
  std::string command;  ///< The search that finds the plan.
  plan::Mend mend;      ///< The plan, and the hardware if that changes, too.
  bool adapts = true;   ///< The question was about training every parameter.
};

/// What the search of `search` finds with LoRA, with QLoRA, or with QLoRA whose remaining
/// parameters stay in 16 bits (prepare=no): the first of these with which a plan fits, unless the
/// question has it already. If none fits, the last one on more GPUs and on a larger one. Empty if
/// no framework that is searched trains adapters.
[[nodiscard]] std::vector<AdapterChange> adapter_changes(const Arguments& arguments,
                                                         const PlanSearch& search,
                                                         std::span<const plan::OtherDevice> others,
                                                         const plan::StopSignal& stop);

/// The changes as text, each with its command.
[[nodiscard]] std::string adapter_change_lines(const std::vector<AdapterChange>& changes);

}  // namespace headroom::cli
