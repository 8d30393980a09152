#pragma once

#include "costmodel/hardware/collective_time.h"
#include "costmodel/hardware/kernel_time.h"

namespace headroom::cost {

/// Time of one piece of work alone on the device or its links, by the function for its kind.
[[nodiscard]] Seconds work_time(const DevicePerformance& device, const Topology& topology,
                                const ir::WorkShape& shape);

}  // namespace headroom::cost
