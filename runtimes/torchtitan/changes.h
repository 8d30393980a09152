#pragma once

#include <span>

#include "runtimes/interface/change.h"

namespace headroom::ir::torchtitan {

/// Changes to a plan of torchtitan that reduce its memory, the cheapest first.
[[nodiscard]] std::span<const OwnChange> plan_changes();

}  // namespace headroom::ir::torchtitan
