#pragma once

#include "validators/executor/device_abi.h"

namespace headroom::cuda {

/// The same functions, except that none lets an exception of C++ out: it becomes a failure with a
/// sentence, as the interface promises (device_abi.h). There is one such table in a process: a
/// later call replaces the functions of the table before.
[[nodiscard]] HeadroomDeviceTable guarded_table(const HeadroomDeviceTable& functions);

}  // namespace headroom::cuda
