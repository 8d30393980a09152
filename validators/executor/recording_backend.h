#pragma once

#include "validators/executor/device_abi.h"

namespace headroom::exec {

class Device;
class Memory;

/// A backend whose functions succeed and do nothing: an execution on it leaves its `RankProgram`.
/// Its device has memory without end. What is read back from it says nothing.
[[nodiscard]] const HeadroomDeviceTable& recording_backend();

/// From now on, the work that this backend's `device` is given is added to the program of `memory`.
///
/// Model:   products and attention with their sizes; all other kernels as the bytes that they must
///          read and write at least; copies; events as marks. Products of experts are counted as if
///          all experts had the same number of rows.
void record_work(Device& device, Memory& memory);

}  // namespace headroom::exec
