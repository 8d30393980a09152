#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom plan MODEL --gpu NAME --gpus N`: the best plan, proven, and replayed.
[[nodiscard]] Command plan_command();

}  // namespace headroom::cli
