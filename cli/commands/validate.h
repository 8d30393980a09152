#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom validate measured PATH...`: predicts measured runs and compares the results.
[[nodiscard]] Command validate_command();

}  // namespace headroom::cli
