#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom sweep MODEL... --gpu NAME,.. --gpus N,..`: finds the best plan for every combination
/// and writes one line for each. A rerun adds the missing ones.
[[nodiscard]] Command sweep_command();

}  // namespace headroom::cli
