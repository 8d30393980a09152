#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom fit MODEL --gpu G`: prints the verdict, the peak and what to change.
[[nodiscard]] Command fit_command();

}  // namespace headroom::cli
