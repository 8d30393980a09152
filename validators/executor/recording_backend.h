#pragma once

#include "validators/executor/device_abi.h"

namespace headroom::exec {

/// A backend whose functions succeed and do nothing: an execution on it leaves its `RankProgram`.
/// Its device has memory without end. What is read back from it is zero.
[[nodiscard]] const HeadroomDeviceTable& recording_backend();

}  // namespace headroom::exec
