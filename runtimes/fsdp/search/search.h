#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// The search axis that only FSDP has.
namespace fsdp_axes {
[[nodiscard]] AxisWords any_version();
inline constexpr AxisTraits kVersionTraits{
    .order = 365,
    .option = "fsdp-version",
    .values = "N,..",
    .help = "1: FullyShardedDataParallel as Accelerate sets it up; 2: fully_shard",
    .usual = "2",
    .any = any_version,
    .absent = 2,
    .demanded = true};
inline constexpr Axis kVersion{kVersionTraits};
}  // namespace fsdp_axes

/// The rows of frameworks that shard with FSDP: replicas, resharding and offload. A plan without
/// FSDP has one value on each.
[[nodiscard]] std::vector<SearchAxis> sharding_axes();

/// The search for FSDP: version, replicas, resharding, offload, and the axes of transformers'
/// models.
///
/// Model:   shards are fp32; the mixed-precision policy computes in bf16 or in fp32. fp16 is not
///          searched. bf16 shards are searched where the user asks for them.
[[nodiscard]] const FrameworkSearch& fsdp_search();

}  // namespace headroom::plan
