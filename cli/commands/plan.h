#pragma once

#include <cstdint>
#include <vector>

#include "cli/command.h"

namespace headroom::cli {

/// `headroom plan MODEL --gpu NAME --gpus N`: the best plan, proven, and replayed.
[[nodiscard]] Command plan_command();

/// The options of `plan` and `explain`: those of the search, and --output.
[[nodiscard]] std::vector<OptionSpec> plan_answer_options();

/// How much is explained: what `--why` asks, or every neighbour of the plan as well.
enum class Explaining : std::uint8_t { kAsked, kAll };
/// What `plan` and `explain` have in common: all of it.
[[nodiscard]] Result<ExitCode> run_plan_search(const Arguments& arguments, const Context& context,
                                               Explaining explaining);

}  // namespace headroom::cli
