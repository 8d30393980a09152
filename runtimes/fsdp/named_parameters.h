#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_ir/graph/graph.h"
#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// A parameter of the model, its name inside the wrappers, and its place in the graph.
struct NamedParameter {
  std::string name;
  torch::Tensor whole;
  const TensorInfo* info = nullptr;  ///< For an adapter: that of its base weight.
  TensorId id{0};
  bool adapter = false;
};

/// Name of the copy that a tied head has when it is trained in full. It is separate from the
/// embedding.
inline constexpr const char* kTiedHeadCopy = "lm_head.modules_to_save.default.weight";

/// model.named_parameters(). A layer with an adapter becomes a module that contains the layer and
/// its adapter. A module that is trained in full becomes one that contains the module and its copy.
/// Source: huggingface/peft src/peft/tuners/lora/layer.py, LoraLayer; utils/other.py,
///         ModulesToSaveWrapper.
[[nodiscard]] std::vector<NamedParameter> named_parameters(const transformers::Model& model,
                                                           const Graph& graph);

/// The number of layers that are modules of their own and do not run: those of a recording.
[[nodiscard]] std::size_t idle_layers(const ModelSpec& spec);

/// The module to whose group a parameter belongs. Idle layer k has the number layers + 1 + k: the
/// number `layers` is left free, so that `place_of` needs no other rule.
[[nodiscard]] std::int32_t module_of(const Sharding& sharding, const ModelSpec& spec,
                                     const NamedParameter& parameter);

/// The place of a module's group, in the order in which a walk visits the `layers` and the modules
/// around them; layers that do not run come last.
[[nodiscard]] std::size_t place_of(std::int32_t module, std::int32_t layers);

/// The shape of this rank's rows of a parameter of shape `whole`.
[[nodiscard]] torch::Shape shard_shape(const Sharding& sharding, const torch::Shape& whole);

}  // namespace headroom::ir::fsdp
