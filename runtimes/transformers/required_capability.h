#pragma once

#include <span>

#include "runtimes/interface/capability.h"

namespace headroom::ir::transformers {

/// What bitsandbytes and Liger need of a GPU. What flash-attn needs is checked with its other
/// conditions (`unsupported`).
[[nodiscard]] std::span<const CapabilityRule> capability_rules();

}  // namespace headroom::ir::transformers
