#pragma once

#include <cstdint>

#include "validators/executor/device_abi.h"
#include "validators/executor/memory.h"

namespace headroom::exec {

/// The memory to whose program the recording backend adds its work; null: it adds none.
[[nodiscard]] Memory* recorded_memory(HeadroomDevice* device);

/// Fills the table with kernels that record what they would do.
void add_recorded_kernels(HeadroomDeviceTable& table);

}  // namespace headroom::exec
