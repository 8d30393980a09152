#include "costmodel/remedy.h"

#include <algorithm>

#include "runtimes/registry.h"

namespace headroom::cost {

std::optional<ir::ParallelPlan> with_change(const ir::ParallelPlan& plan, const Change& change,
                                            const DeviceSpec& device) {
  const std::vector<ir::OwnChange> own = ir::changes_of(plan);
  const auto found = std::ranges::find(own, change, &ir::OwnChange::change);
  if (found == own.end()) {
    return std::nullopt;
  }
  std::optional<ir::ParallelPlan> changed = found->make(plan, {.bf16 = device.bf16});
  return changed == plan ? std::nullopt : changed;
}

Bytes least_margin(Bytes device_margin, const HostMemory& host) {
  return std::min(device_margin, host.least_margin().value_or(device_margin));
}

}  // namespace headroom::cost
