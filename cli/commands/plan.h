#pragma once

#include <cstdint>

#include "cli/command.h"

namespace headroom::cli {

/// `headroom plan MODEL --gpu NAME --gpus N`: finds the best plan, proves it and replays it.
[[nodiscard]] Command plan_command();

/// What is explained: only what `--why` asks, or also every neighbouring value of the plan.
enum class Explaining : std::uint8_t { kAsked, kAll };
/// The common implementation of `plan` and `explain`.
[[nodiscard]] Result<ExitCode> run_plan_search(const Arguments& arguments, const Context& context,
                                               Explaining explaining);

}  // namespace headroom::cli
