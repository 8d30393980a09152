#include "runtimes/deepspeed/parameter_groups.h"

#include <set>
#include <string_view>

#include "runtimes/deepspeed/plan.h"

namespace headroom::ir::deepspeed {
namespace {

/// Decides by name: "model.norm.weight", "layers.0.input_layernorm.weight", "h.0.ln_1.weight".
bool is_norm_or_bias(std::string_view name) {
  return name.find("norm") != std::string_view::npos ||
         name.find(".ln_") != std::string_view::npos || name.ends_with("bias");
}

}  // namespace

ParameterGroups parameter_groups(const transformers::Model& model, const ZeroPlan& zero) {
  if (!zero.decay_groups) {
    return {model.trainable};
  }
  std::set<const torch::TensorImpl*> undecayed;
  for (const TensorId id : model.graph->parameters()) {
    if (is_norm_or_bias(model.graph->tensor(id).name)) {
      undecayed.insert(model.parameters[index_of(id)].impl());
    }
  }
  ParameterGroups groups(2);
  for (const torch::Tensor& parameter : model.trainable) {
    groups[undecayed.contains(parameter.impl()) ? 1 : 0].push_back(parameter);
  }
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  return groups;
}

}  // namespace headroom::ir::deepspeed
