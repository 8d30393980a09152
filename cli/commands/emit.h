#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom emit FRAMEWORK MODEL`: writes the framework's configuration for the plan.
[[nodiscard]] Command emit_command();

}  // namespace headroom::cli
