#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom graph MODEL`: prints the operators of a forward pass as Graphviz text.
[[nodiscard]] Command graph_command();

}  // namespace headroom::cli
