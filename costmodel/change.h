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

/// `plan` with the change applied as its framework does it. Nothing if the framework lacks it, the
/// plan has it already, it does not apply to the plan, or the device does not support it.
[[nodiscard]] std::optional<ir::ParallelPlan> with_change(const ir::ParallelPlan& plan,
                                                          const Change& change,
                                                          const DeviceSpec& device);

}  // namespace headroom::cost
