#pragma once

#include "validators/executor/device_abi.h"

namespace headroom::exec {

/// The backend that computes on the CPU, for small plans and tests: one thread for each opened
/// device, fp64 arithmetic, everything done when a call returns. Device memory is memory of the
/// host, of which each device has 64 GiB at most.
[[nodiscard]] const HeadroomDeviceTable& cpu_backend();

}  // namespace headroom::exec
