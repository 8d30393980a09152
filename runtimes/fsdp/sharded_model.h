#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// Indices into `names`, a list of parameters in the order of model.parameters(), in the order in
/// which a walk that visits children before their parent meets them.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_init.py,
///         _get_managed_modules; torch/nn/modules/module.py, Module._apply.
[[nodiscard]] std::vector<std::size_t> children_first(std::span<const std::string> names);

/// A model and what fully_shard has made of its parameters.
struct ShardedModel {
  transformers::Model model;
  std::vector<std::unique_ptr<ShardedGroup>> groups;  ///< The root, then as the modules come.
  std::vector<torch::Tensor> shards;                  ///< In the order of model.parameters().
};

/// Builds the model on the meta device, shards it, and gives shards and buffers memory
/// (`to_empty`). `plan` is that of the arithmetic; `sharding.stored` the type of the shards. A
/// model with quantised weights is loaded on the device instead, where its layers are sharded one
/// after the other: what is quantised cannot be moved to the meta device and back. Source:
/// huggingface/accelerate src/accelerate/utils/fsdp_utils.py, fsdp2_prepare_model;
///         pytorch/pytorch 2.11 _fully_shard/_fsdp_param.py, _init_sharded_param.
[[nodiscard]] ShardedModel load_sharded(const Sharding& sharding,
                                        const transformers::ModelSource& source);

/// Loads a model with 4-bit weights whole on the device, adds its adapters, and shards it group by
/// group: new shards first, then the whole parameters go. The codes are sharded as elements of the
/// other weights' type; factors and tables stay whole on every rank.
///
/// In quantised_shards.cpp.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
///         _init_sharded_param; bitsandbytes 0.50.2 bitsandbytes/nn/modules.py,
///         fix_4bit_weight_quant_state_from_module.
[[nodiscard]] ShardedModel shard_quantised(const Sharding& sharding,
                                           const transformers::ModelSource& source);

}  // namespace headroom::ir::fsdp
