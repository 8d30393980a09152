#pragma once

#include <optional>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/change.h"

namespace headroom::cost {

using ir::Change;

/// "recompute every layer in backward".
[[nodiscard]] inline std::string_view describe(const Change& change) {
  return change.what;
}
/// What it costs, in words: "one more forward of every layer".
[[nodiscard]] inline std::string_view cost_of(const Change& change) {
  return change.cost;
}
/// Where the cost comes from.
[[nodiscard]] inline std::string_view source_of(const Change& change) {
  return change.source;
}

/// `plan` with the change made, as its framework makes it; nothing where the framework lacks it, it
/// is made already, does not apply to the plan, or the device cannot do it.
[[nodiscard]] std::optional<ir::ParallelPlan> with_change(const ir::ParallelPlan& plan,
                                                          const Change& change,
                                                          const DeviceSpec& device);

}  // namespace headroom::cost
