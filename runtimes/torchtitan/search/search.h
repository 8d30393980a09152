#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// How torchtitan is searched: degrees, replicas, losses and micro-batches make cells; within a
/// cell are the schedule, resharding, compilation and what is recomputed (`titan_choices`).
///
/// Model:   shards in fp32, gathered in bf16. A rank's shards lie on two ranks at least, or nothing
///          is sharded. The embedding and the loss count as a layer each where layers are
///          distributed over stages, unless it is asked otherwise.
[[nodiscard]] const FrameworkSearch& torchtitan_search();

}  // namespace headroom::plan
