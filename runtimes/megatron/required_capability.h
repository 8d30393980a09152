#pragma once

#include <span>

#include "runtimes/interface/capability.h"

namespace headroom::ir::megatron {

/// What Transformer Engine needs of a GPU, besides the 8-bit recipes (`check_megatron_fp8_device`).
[[nodiscard]] std::span<const CapabilityRule> capability_rules();

}  // namespace headroom::ir::megatron
