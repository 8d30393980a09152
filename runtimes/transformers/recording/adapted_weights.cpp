#include "runtimes/transformers/recording/adapted_weights.h"

#include <algorithm>

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

AdaptedWeights::AdaptedWeights(const Model& model) {
  if (!model.plan->lora) {
    return;
  }
  for (const TensorId id : expert_targets(*model.spec, *model.graph, *model.plan->lora)) {
    adapted_.push_back(static_cast<std::uint32_t>(id));
  }
  std::ranges::sort(adapted_);
}

bool AdaptedWeights::contains(std::uint32_t parameter) const {
  return std::ranges::binary_search(adapted_, parameter);
}

void AdaptedWeights::prepare(Eager& eager, const Model& model, std::uint32_t parameter,
                             Call& call) const {
  Call::Weight weight{.parameter = parameter, .experts = {}, .router = {}, .sum = {}};
  if (model.parameters[parameter].shape().rank() == 3) {
    weight.experts = factors_of(eager, model, TensorId{parameter});
  } else {
    weight.router = router_weight_of(eager, model, TensorId{parameter});
  }
  call.weights.push_back(std::move(weight));
}

Tensor AdaptedWeights::sum_for(Eager& eager, const Model& model, std::uint32_t parameter,
                               const RecordedScope& scope, Call& call) const {
  const auto made = [&call](std::uint32_t index) {
    return std::ranges::find(call.weights, index, &Call::Weight::parameter);
  };
  if (made(parameter) == call.weights.end()) {
    // A module's parametrisations are registered together when it is called, the last one first.
    const std::uint32_t module = model.spec->recording->parameters[parameter].module;
    for (auto each = scope.parameters.rbegin(); each != scope.parameters.rend(); ++each) {
      if (contains(*each) && model.spec->recording->parameters[*each].module == module) {
        prepare(eager, model, *each, call);
      }
    }
    if (made(parameter) == call.weights.end()) {
      prepare(eager, model, parameter, call);
    }
  }
  Call::Weight& weight = *made(parameter);
  if (!weight.sum.defined()) {
    weight.sum =
        weight.experts.base.defined() ? fold(eager, weight.experts) : sum(eager, weight.router);
  }
  return weight.sum;
}

}  // namespace headroom::ir::transformers
