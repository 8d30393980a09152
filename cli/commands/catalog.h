#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom catalog models|gpus|nodes|links`: what is known by name.
[[nodiscard]] Command catalog_command();

}  // namespace headroom::cli
