#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom timeline MODEL --gpu G --format F`: exports the whole timeline of a run for other
/// programs.
[[nodiscard]] Command timeline_command();

}  // namespace headroom::cli
