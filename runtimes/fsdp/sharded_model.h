#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// Indices into `names`, a list of parameters in the order of model.parameters(). They are in the
/// order of a walk that visits children before their parent.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_init.py,
///         _get_managed_modules; torch/nn/modules/module.py, Module._apply.
[[nodiscard]] std::vector<std::size_t> children_first(std::span<const std::string> names);

/// A model and its parameters after fully_shard.
struct ShardedModel {
  transformers::Model model;
  std::vector<std::unique_ptr<ShardedGroup>> groups;  ///< The root, then in the modules' order.
  std::vector<torch::Tensor> shards;                  ///< In the order of model.parameters().
};

/// Builds the model on the meta device, shards it and allocates shards and buffers (`to_empty`).
/// `plan` is the plan of the arithmetic, `sharding.stored` the type of the shards. A model with
/// quantised weights is loaded on the device instead, and its layers are sharded there one after
/// the other, because quantised weights cannot be moved to the meta device and back.
/// Source: huggingface/accelerate src/accelerate/utils/fsdp_utils.py, fsdp2_prepare_model;
///         pytorch/pytorch 2.11 _fully_shard/_fsdp_param.py, _init_sharded_param.
[[nodiscard]] ShardedModel load_sharded(const Sharding& sharding,
                                        const transformers::ModelSource& source);

/// Loads a whole model with 4-bit weights on the device, adds its adapters and shards it group by
/// group. Each time the new shards are made first, then the whole parameters are freed. The codes
/// are sharded as elements of the other weights' type; every rank has the whole factors and tables.
///
/// Defined in quantised_shards.cpp.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
///         _init_sharded_param; bitsandbytes 0.50.2 bitsandbytes/nn/modules.py,
///         fix_4bit_weight_quant_state_from_module.
[[nodiscard]] ShardedModel shard_quantised(const Sharding& sharding,
                                           const transformers::ModelSource& source);

}  // namespace headroom::ir::fsdp
