#pragma once

#include <span>

#include "runtimes/interface/change.h"

namespace headroom::ir::torchtitan {

/// What can be changed about a plan of torchtitan to make it smaller, cheapest first.
[[nodiscard]] std::span<const OwnChange> plan_changes();

}  // namespace headroom::ir::torchtitan
