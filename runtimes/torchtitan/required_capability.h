#pragma once

#include <span>

#include "runtimes/interface/capability.h"

namespace headroom::ir::torchtitan {

/// What torchao's float8 and Inductor need of a GPU.
[[nodiscard]] std::span<const CapabilityRule> capability_rules();

}  // namespace headroom::ir::torchtitan
