#include "model_ir/runtime/transformers/adapter.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/runtime/torch/functions.h"

namespace headroom::ir::transformers {

using torch::Tensor;

namespace {

/// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string_view module_name(std::string_view parameter) {
  parameter = parameter.substr(0, parameter.rfind('.'));
  return parameter.substr(parameter.rfind('.') + 1);
}

/// Weights of linear layers that `lora` adapts, in registration order. "all-linear" leaves out the
/// head. Source: huggingface/peft src/peft/tuners/tuners_utils.py,
/// _maybe_include_all_linear_layers.
std::vector<TensorId> targets_of(const Graph& graph, const LoraPlan& lora) {
  std::set<TensorId> linear;
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    const bool wanted =
        op.kind == OpKind::kLinear && (op.role != OpRole::kHead || !lora.targets.empty());
    if (wanted) {
      linear.insert(op.parameters.at(0));
    }
  }
  std::vector<TensorId> targets;
  for (const TensorId id : graph.parameters()) {
    const std::string_view name = module_name(graph.tensor(id).name);
    const bool named = lora.targets.empty() || std::find(lora.targets.begin(), lora.targets.end(),
                                                         name) != lora.targets.end();
    if (named && linear.contains(id)) {
      targets.push_back(id);
    }
  }
  return targets;
}

}  // namespace

void add_adapters(torch::Eager& eager, Model& model, const LoraPlan& lora) {
  eager.set_site("lora.adapters", -1);
  const bool conv1d = model.spec->qkv == QkvLayout::kFusedConv1d;
  std::vector<Adapter*> adapters;
  for (const TensorId id : targets_of(*model.graph, lora)) {
    const Tensor& weight = model.parameters[index_of(id)];
    const std::int64_t out = weight.shape()[conv1d ? 1 : 0];
    const std::int64_t in = weight.shape()[conv1d ? 0 : 1];
    Adapter& adapter = model.adapters[static_cast<std::uint32_t>(id)];
    adapter.a = eager.parameter({lora.rank, in}, weight.dtype(), true);
    adapter.b = eager.parameter({out, lora.rank}, weight.dtype(), true);
    adapters.push_back(&adapter);
  }
  // autocast_adapter_dtype: half-precision adapters become fp32, one parameter after the other.
  for (Adapter* adapter : adapters) {
    for (Tensor* parameter : {&adapter->a, &adapter->b}) {
      if (parameter->dtype() != DType::kFp32) {
        *parameter = eager.parameter(parameter->shape(), DType::kFp32, true);
      }
      model.trainable_count += parameter->elements();
      model.parameter_count += parameter->elements();
      model.trainable.push_back(*parameter);
    }
  }
}

Tensor adapted_linear(torch::Eager& eager, const Model& model, const Tensor& input,
                      const Tensor& weight, const Tensor& bias, const Adapter& adapter) {
  const bool conv1d = model.spec->qkv == QkvLayout::kFusedConv1d;
  Tensor result = conv1d ? torch::conv1d(eager, input, weight, bias)
                         : torch::linear(eager, input, weight, bias);
  const DType result_dtype = result.dtype();
  const Tensor x = torch::to(eager, input, adapter.a.dtype());
  const double dropout = model.training ? model.plan->lora->dropout : 0;
  Tensor dropped = torch::dropout(eager, x, dropout);
  Tensor low = torch::linear(eager, dropped, adapter.a, {});
  dropped.reset();
  Tensor high = torch::linear(eager, low, adapter.b, {});
  low.reset();
  Tensor scaled = torch::scale(eager, high);
  high.reset();
  Tensor sum = torch::add(eager, result, scaled);
  scaled.reset();
  result = std::move(sum);
  Tensor output = torch::to(eager, result, result_dtype);
  result.reset();
  return output;
}

}  // namespace headroom::ir::transformers
