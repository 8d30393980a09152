#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The search of torchtitan. Degrees, replicas, losses and micro-batches define a cell. The choices
/// within a cell are the schedule, resharding, compilation and recomputation (`titan_choices`).
///
/// Model:   shards are fp32 and are gathered in bf16. Shards lie on at least two ranks, or nothing
///          is sharded. The embedding and the loss count as one layer each when layers are
///          distributed over stages, unless the user says otherwise.
[[nodiscard]] const FrameworkSearch& torchtitan_search();

}  // namespace headroom::plan
