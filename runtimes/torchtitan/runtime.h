#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::torchtitan {

/// torchtitan's Trainer with its own model code.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::torchtitan
