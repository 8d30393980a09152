#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom timeline MODEL --gpu G --format F`: the whole history of a run, for other programs.
[[nodiscard]] Command timeline_command();

}  // namespace headroom::cli
