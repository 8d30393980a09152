#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// LoRA on the parameters of a mixture of experts, which are not linear layers: PEFT adds the
/// product of the adapter's factors to the weight while the module runs.
/// Source: huggingface/peft 0.21 src/peft/tuners/lora/layer.py, ParamWrapper;
///         utils/transformers_weight_conversion.py, _convert_peft_config_moe.

/// Whether `lora` adapts the experts if it names a module `name`, rather than a linear layer of
/// that name. PEFT translates the names for models whose experts used to be linear layers.
[[nodiscard]] bool names_expert_part(const ModelSpec& spec, std::string_view name);

/// Whether a router was a linear layer when experts were modules.
[[nodiscard]] bool is_linear_router(const Op& router);

/// Weights of experts that are modules, and of their routers if these are linear layers: PEFT
/// adapts them like others. None if experts are fused. Source: huggingface/transformers 4.57,
/// models/*/modeling_*.py.
[[nodiscard]] std::set<TensorId> expert_linears(const Graph& graph);

/// Whether `lora` adapts a router or experts of the model.
[[nodiscard]] bool adapts_experts(const ModelSpec& spec, const LoraPlan& lora);

/// Routers and fused experts that `lora` adapts, in registration order.
[[nodiscard]] std::vector<TensorId> expert_targets(const ModelSpec& spec, const Graph& graph,
                                                   const LoraPlan& lora);

/// An adapter on such a parameter: the factors of all experts together, with twice the rank if two
/// projections were fused.
[[nodiscard]] Adapter make_expert_adapter(torch::Eager& eager, const Model& model, TensorId id,
                                          const LoraPlan& lora);

/// A parameter and its adapter's factors in the parameter's type; without an adapter the factors
/// are undefined.
struct FoldedWeight {
  torch::Tensor base;
  torch::Tensor left;   ///< [E, out, r]
  torch::Tensor right;  ///< [E, r, in]
};

/// Prepares the weight `id` of the experts; registering the parametrisation runs it once.
[[nodiscard]] FoldedWeight factors_of(torch::Eager& eager, const Model& model, TensorId id);
/// The weight that the experts read.
[[nodiscard]] torch::Tensor fold(torch::Eager& eager, const FoldedWeight& weight);

/// A router's weight and its adapter's product; without an adapter there is no product.
struct RouterWeight {
  torch::Tensor base;
  torch::Tensor delta;
};

[[nodiscard]] RouterWeight router_weight_of(torch::Eager& eager, const Model& model, TensorId id);
/// The weight that the router reads.
[[nodiscard]] torch::Tensor sum(torch::Eager& eager, const RouterWeight& weight);

}  // namespace headroom::ir::transformers
