#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// How Megatron-Core is searched: degrees, stages, sequence parallelism, attention, offloaded
/// modules and micro-batches make cells; within a cell are what is recomputed and the switches that
/// change no tensor's size.
[[nodiscard]] const FrameworkSearch& megatron_search();

}  // namespace headroom::plan
