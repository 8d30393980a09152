#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::megatron {

/// Megatron-Core's training loop.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::megatron
