#pragma once

#include "validators/measured/score.h"

namespace headroom::check {

/// The real tools: `ir::lower` and `cost::replay` for rows whose allocator had the device to
/// itself; `find_device` and `cost::estimate` for published rows. Step times of published rows are
/// predicted where `find_machine` knows the device's machine.
[[nodiscard]] ScoreTools runtime_tools(DeviceFinder find_device, MachineFinder find_machine = {});

}  // namespace headroom::check
