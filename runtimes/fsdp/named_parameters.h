#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_ir/graph/graph.h"
#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// A parameter of the model with its wrapper's names, and where it stands.
struct NamedParameter {
  std::string name;
  torch::Tensor whole;
  const TensorInfo* info = nullptr;  ///< Of an adapter: its base weight's.
  TensorId id{0};
  bool adapter = false;
};

/// A head that is tied and trained in full: a copy of its own beside the embedding's.
inline constexpr const char* kTiedHeadCopy = "lm_head.modules_to_save.default.weight";

/// model.named_parameters(): an adapted layer becomes a module that holds the layer and its
/// adapter, a module that is trained in full one that holds it and its copy.
/// Source: huggingface/peft src/peft/tuners/lora/layer.py, LoraLayer; utils/other.py,
///         ModulesToSaveWrapper.
[[nodiscard]] std::vector<NamedParameter> named_parameters(const transformers::Model& model,
                                                           const Graph& graph);

/// Which module's group a parameter belongs to.
[[nodiscard]] std::int32_t module_of(const Sharding& sharding, const ModelSpec& spec,
                                     const NamedParameter& parameter);

/// Groups in the order in which a walk over the `layers` and what lies around them meets them.
[[nodiscard]] std::size_t place_of(std::int32_t module, std::int32_t layers);

/// The shape of the rows that this rank keeps of a parameter of shape `whole`.
[[nodiscard]] torch::Shape shard_shape(const Sharding& sharding, const torch::Shape& whole);

}  // namespace headroom::ir::fsdp
