#pragma once

#include "validators/cuda/emulation/block.h"
#include "validators/executor/device_abi.h"

namespace headroom::cuda::emulation {

/// The CPU backend with the kernels of CUDA in place of its own: their calls, and their bodies run
/// by `run_grid`. Matrix products are plain ones of what cuBLASLt would be asked for. Memory and
/// streams are the CPU's. It has no fp64.
[[nodiscard]] const HeadroomDeviceTable& emulated_backend();

/// Order in which the threads of all launches from now on run.
void set_order(Order order);

}  // namespace headroom::cuda::emulation
