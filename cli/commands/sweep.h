#pragma once

#include "cli/command.h"

namespace headroom::cli {

/// `headroom sweep MODEL... --gpu NAME,.. --gpus N,..`: the best plan of every combination, a line
/// each; a rerun adds what is missing.
[[nodiscard]] Command sweep_command();

}  // namespace headroom::cli
