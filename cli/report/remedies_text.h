#pragma once

#include <string>

#include "cli/report/fit_answer.h"
#include "cli/terminal.h"

/// The parts of the text of `fit` that say what to change.
namespace headroom::cli {

/// The cheapest changes after which the run fits, or those that help most, and more GPUs.
[[nodiscard]] std::string remedies_text(const FitAnswer& answer, const Terminal& terminal);
/// What limits the speed of a step, and which changes would help; empty without `--faster`.
[[nodiscard]] std::string speedups_text(const FitAnswer& answer, const Terminal& terminal);
/// Says that a step waits for its network, unless changes against that were looked for.
[[nodiscard]] std::string speedup_hint(const FitAnswer& answer);

}  // namespace headroom::cli
