#pragma once

#include "runtimes/fsdp/sharded_model.h"

namespace headroom::ir::fsdp {

/// Loads a model with 4-bit weights whole on the device, adds its adapters, and shards it group by
/// group: new shards first, then the whole parameters go. The codes are sharded as elements of the
/// other weights' type; factors and tables stay whole on every rank.
///
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
///         _init_sharded_param; bitsandbytes 0.50.2 bitsandbytes/nn/modules.py,
///         fix_4bit_weight_quant_state_from_module.
[[nodiscard]] ShardedModel shard_quantised(const Sharding& sharding, const ModelSpec& spec,
                                           const ParallelPlan& plan, const Graph& graph);

}  // namespace headroom::ir::fsdp
