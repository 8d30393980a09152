#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The search of Megatron-Core. Degrees, stages, sequence parallelism, attention, offloaded modules
/// and micro-batches define a cell. The choices within a cell are recomputation and the switches
/// that change no tensor's size.
[[nodiscard]] const FrameworkSearch& megatron_search();

}  // namespace headroom::plan
