#pragma once

#include "validators/measured/score.h"

namespace headroom::check {

/// The tools of the real program: `ir::lower` and `cost::replay` for rows whose process had the
/// device to itself; `find_device` and `cost::estimate` for published rows. Step times of published
/// rows are predicted if `find_machine` knows the machine of the device.
[[nodiscard]] ScoreTools runtime_tools(DeviceFinder find_device, MachineFinder find_machine = {});

}  // namespace headroom::check
