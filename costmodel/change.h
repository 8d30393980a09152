#pragma once

#include <optional>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::cost {

using ir::Change;
using ir::cost_of;
using ir::describe;
using ir::source_of;

/// `plan` with the change made, as its framework makes it; nothing where the framework lacks it, it
/// is made already, does not apply to the plan, or the device cannot do it.
[[nodiscard]] std::optional<ir::ParallelPlan> with_change(const ir::ParallelPlan& plan,
                                                          const Change& change,
                                                          const DeviceSpec& device);

}  // namespace headroom::cost
