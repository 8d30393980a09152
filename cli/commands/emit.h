#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom emit FRAMEWORK MODEL`: the configuration that does what the plan says.
[[nodiscard]] Command emit_command();

}  // namespace headroom::cli
