#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom compare A B [C...]`: plans side by side, what differs and what it does.
[[nodiscard]] Command compare_command();

}  // namespace headroom::cli
