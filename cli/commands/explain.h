#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom explain MODEL --gpu NAME --gpus N`: explains why this plan is the best, and what would
/// make an infeasible request feasible.
[[nodiscard]] Command explain_command();

}  // namespace headroom::cli
