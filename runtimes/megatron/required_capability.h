#pragma once

#include <span>

#include "runtimes/interface/capability.h"

namespace headroom::ir::megatron {

/// What Transformer Engine needs of a GPU, besides the 8-bit recipes (`check_megatron_fp8_device`).
[[nodiscard]] std::span<const CapabilityRule> capability_rules();

/// Whether Transformer Engine's fused and flash attention run on `device`.
[[nodiscard]] bool has_fused_attention(const DeviceTraits& device);

}  // namespace headroom::ir::megatron
