#pragma once

#include <cstdint>

#include "validators/executor/device_abi.h"
#include "validators/executor/memory.h"

namespace headroom::exec {

/// Where the recording backend writes the work that it is given; empty: nowhere.
[[nodiscard]] Memory* recorded_memory(HeadroomDevice* device);

/// Fills the table with kernels that record what they would do.
void add_recorded_kernels(HeadroomDeviceTable& table);

}  // namespace headroom::exec
