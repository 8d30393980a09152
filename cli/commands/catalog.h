#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom catalog models
/// gpus
/// nodes
/// links`: lists the known names.
[[nodiscard]] Command catalog_command();

}  // namespace headroom::cli
