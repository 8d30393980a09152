#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom explain MODEL --gpu NAME --gpus N`: why this plan and not another; what would make an
/// infeasible request feasible.
[[nodiscard]] Command explain_command();

}  // namespace headroom::cli
