#include "runtimes/transformers/adapter.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/plan/plan_words.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/transformers/dora.h"
#include "runtimes/transformers/expert_adapter.h"
#include "runtimes/transformers/modeling.h"
#include "runtimes/transformers/quantised.h"
#include "runtimes/transformers/refused_targets.h"
#include "runtimes/transformers/saved_modules.h"

namespace headroom::ir::transformers {

using torch::Tensor;

namespace {

/// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string_view module_name(std::string_view parameter) {
  parameter = parameter.substr(0, parameter.rfind('.'));
  return parameter.substr(parameter.rfind('.') + 1);
}

/// Weights of linear layers that `lora` adapts, in registration order. "all-linear" excludes the
/// head. Source: huggingface/peft src/peft/tuners/tuners_utils.py,
/// _maybe_include_all_linear_layers.
std::vector<TensorId> targets_of(const ModelSpec& spec, const Graph& graph, const LoraPlan& lora) {
  std::set<TensorId> linear = expert_linears(graph);
  const bool modules = !linear.empty();
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    const bool linear_layer = op.kind == OpKind::kLinear || op.kind == OpKind::kSharedGate;
    if (linear_layer && (op.role != OpRole::kHead || !lora.targets.empty())) {
      linear.insert(op.parameters.at(0));
    }
  }
  std::vector<TensorId> targets;
  for (const TensorId id : graph.parameters()) {
    const std::string_view name = module_name(graph.tensor(id).name);
    const bool named = lora.targets.empty() || std::find(lora.targets.begin(), lora.targets.end(),
                                                         name) != lora.targets.end();
    if (named && linear.contains(id) && (modules || !names_expert_part(spec, name)) &&
        !is_saved_module(spec, lora, graph.tensor(id).name)) {
      targets.push_back(id);
    }
  }
  return targets;
}

/// Type in which PEFT creates an adapter: that of the frozen layer's weight or, for 4 bits, of its
/// arithmetic; fp32 if the weight has an integer type.
/// Source: huggingface/peft tuners/tuners_utils.py, _get_base_layer_device_and_dtype.
DType adapter_dtype(const Model& model, TensorId id) {
  if (model.quantised.contains(static_cast<std::uint32_t>(id))) {
    return model.plan->quant->bits == 4 ? four_bit_arithmetic(*model.plan) : DType::kFp32;
  }
  return model.parameters[index_of(id)].dtype();
}

/// autocast_adapter_dtype: half-precision adapters become fp32, one parameter after the other.
void widen(torch::Eager& eager, Adapter& adapter) {
  for (Tensor* parameter : {&adapter.a, &adapter.b, &adapter.magnitude}) {
    if (parameter->defined() && parameter->dtype() != DType::kFp32) {
      *parameter = eager.parameter(parameter->shape(), DType::kFp32, true);
    }
  }
}

bool is_conv1d(const Model& model, const Op& op) {
  return model.spec->qkv == QkvLayout::kFusedConv1d && op.role != OpRole::kHead;
}

/// lora_B(lora_A(dropout(x))) * scaling
Tensor branch(torch::Eager& eager, const Model& model, const Op& op, const Tensor& x) {
  using Part = ModuleCall::Part;
  const Adapter& adapter = model.adapters.at(static_cast<std::uint32_t>(op.parameters[0]));
  const auto run = [&](Part part, const Tensor& input, const auto& body) {
    return call_module(model.hooks, {.part = part, .layer = op.layer, .op = &op}, input, body);
  };
  Tensor dropped = run(Part::kAdapterDropout, x, [&](const Tensor& given) {
    return torch::dropout(eager, given, model.training ? model.plan->lora->dropout : 0);
  });
  Tensor low = run(Part::kAdapterA, dropped,
                   [&](const Tensor& given) { return torch::linear(eager, given, adapter.a, {}); });
  dropped.reset();
  Tensor high = run(Part::kAdapterB, low, [&](const Tensor& given) {
    return torch::linear(eager, given, adapter.b, {});
  });
  low.reset();
  Tensor scaled = torch::scale(eager, high);
  high.reset();
  return scaled;
}

/// result + magnitude layer. Source: huggingface/peft tuners/lora/variants.py, DoraLinearVariant.
Tensor with_magnitude(torch::Eager& eager, const Model& model, const Op& op, const Tensor& x,
                      const Tensor& result) {
  const double dropout = model.training ? model.plan->lora->dropout : 0;
  Tensor dropped = x;
  if (dropout > 0) {
    dropped = call_module(
        model.hooks, {.part = ModuleCall::Part::kAdapterDropout, .layer = op.layer, .op = &op}, x,
        [&](const Tensor& given) { return torch::dropout(eager, given, dropout); });
  }
  Tensor delta =
      call_module(model.hooks, {.part = ModuleCall::Part::kMagnitude, .layer = op.layer, .op = &op},
                  dropped, [&](const Tensor& given) {
                    return dora_delta(eager, model, op, given, dropout > 0 ? Tensor{} : result);
                  });
  Tensor sum = torch::add(eager, result, delta);
  delta.reset();
  return sum;
}

/// The optimizer's parameters: adapters and copies in the order of their modules, the head's last.
void list_trainable(Model& model) {
  const auto list = [&](const Tensor& parameter) {
    if (parameter.defined()) {
      model.trainable_count += parameter.elements();
      model.trainable.push_back(parameter);
    }
  };
  for (const auto& [id, reader] : reading_modules(model)) {
    const auto key = static_cast<std::uint32_t>(id);
    const auto copy = model.retrained.find({key, reader});
    list(copy != model.retrained.end() ? copy->second : Tensor{});
    if (const auto adapter = model.adapters.find(key);
        reader == ParameterReader::kModule && adapter != model.adapters.end()) {
      list(adapter->second.a);
      list(adapter->second.b);
      list(adapter->second.magnitude);
    }
  }
}

}  // namespace

std::optional<Error> missing_targets(const ModelSpec& spec, const Graph& graph,
                                     const LoraPlan& lora) {
  const std::vector<TensorId> targets = targets_of(spec, graph, lora);
  const auto copied = std::ranges::find_if(targets, [&](TensorId id) {
    return spec.recording && is_copied_module(spec, lora, graph.tensor(id).name);
  });
  if (copied != targets.end()) {
    return Error::invalid_argument(
        "lora", "adapters on " + std::string(module_name(graph.tensor(*copied).name)),
        "targets=... without it: PEFT would copy the module with its adapter",
        "name the targets: --lora targets=...");
  }
  std::set<std::string> adapted;
  for (const TensorId id : targets) {
    adapted.emplace(module_name(graph.tensor(id).name));
  }
  if (std::optional<Error> refused = refused_targets(spec, lora, adapted)) {
    return refused;
  }
  if (!targets.empty() || !expert_targets(spec, graph, lora).empty()) {
    return missing_saved_modules(spec, graph, lora);
  }
  std::set<std::string> names;
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    if (op.kind == OpKind::kLinear && op.role != OpRole::kHead) {
      names.emplace(module_name(graph.tensor(op.parameters.at(0)).name));
    }
  }
  const std::vector<std::string> known(names.begin(), names.end());
  return Error::invalid_argument("lora", "targets=" + join(lora.targets),
                                 "names of linear layers: " + join(known),
                                 suggestion(lora.targets.empty() ? "" : lora.targets[0], known));
}

void add_adapters(torch::Eager& eager, Model& model, const LoraPlan& lora) {
  eager.set_site("lora.adapters", -1);
  const bool conv1d = model.spec->qkv == QkvLayout::kFusedConv1d;
  for (const TensorId id : targets_of(*model.spec, *model.graph, lora)) {
    const std::vector<std::int64_t>& dims = model.graph->tensor(id).dims;
    const DType dtype = adapter_dtype(model, id);
    Adapter& adapter = model.adapters[static_cast<std::uint32_t>(id)];
    adapter.a = eager.parameter({lora.rank, dims[conv1d ? 0 : 1]}, dtype, true);
    adapter.b = eager.parameter({dims[conv1d ? 1 : 0], lora.rank}, dtype, true);
    torch::launch_fill(eager, adapter.a);  // nn.init.kaiming_uniform_, and zeros.
    torch::launch_fill(eager, adapter.b);
    if (lora.dora) {
      add_magnitude(eager, model, id, adapter);
    }
  }
  for (const TensorId id : expert_targets(*model.spec, *model.graph, lora)) {
    model.adapters[static_cast<std::uint32_t>(id)] = make_expert_adapter(eager, model, id, lora);
  }
  add_saved_modules(eager, model, lora);
  // torchtune's adapters keep the model's type.
  const bool widens = model.plan->runtime != "torchtune";
  for (auto& [id, adapter] : model.adapters) {  // In registration order.
    if (widens) {
      widen(eager, adapter);
    }
    for (const Tensor& parameter : {adapter.a, adapter.b, adapter.magnitude}) {
      model.parameter_count += parameter.defined() ? parameter.elements() : 0;
    }
  }
  add_token_head(eager, model);
  list_trainable(model);
  eager.program().parameters = model.parameter_count;
  eager.program().trainable_parameters = model.trainable_count;
}

Tensor frozen_linear(torch::Eager& eager, const Model& model, const Op& op, const Tensor& input) {
  const Tensor weight = parameter_of(model, op, 0);
  const Tensor bias = parameter_of(model, op, 1);
  const auto quantised = model.quantised.find(static_cast<std::uint32_t>(op.parameters[0]));
  if (quantised != model.quantised.end()) {
    return quantised_linear(eager, quantised->second, input, bias);
  }
  if (is_conv1d(model, op)) {
    return torch::conv1d(eager, input, weight, bias);
  }
  const bool multiplies = op.role != OpRole::kHead && !bias.defined() &&
                          modeling_of(*model.spec, *model.plan).multiplies_weights;
  return multiplies ? torch::matmul_transposed(eager, input, weight)
                    : torch::linear(eager, input, weight, bias);
}

Tensor adapted_linear(torch::Eager& eager, const Model& model, const Op& op, const Tensor& input) {
  const auto id = static_cast<std::uint32_t>(op.parameters[0]);
  const Adapter& adapter = model.adapters.at(id);
  const auto quantised = model.quantised.find(id);
  const bool packed = quantised != model.quantised.end();
  Tensor result = call_module(model.hooks, module_of(op), input, [&](const Tensor& given) {
    return frozen_linear(eager, model, op, given);
  });
  if (packed && quantised->second.bits == 4) {
    result = torch::clone(eager, result);
  }
  const DType dtype = result.dtype();
  // bitsandbytes layers leave casts to autocast if it is enabled.
  const bool converts = !packed || !eager.autocast();
  if (model.hooks.read) {
    model.hooks.read({.part = ModuleCall::Part::kAdapted, .layer = op.layer, .op = &op}, adapter.a);
  }
  Tensor x = converts ? torch::to(eager, input, adapter.a.dtype()) : input;
  if (adapter.magnitude.defined()) {
    result = with_magnitude(eager, model, op, x, result);
    Tensor output = converts ? torch::to(eager, result, dtype) : result;
    result.reset();
    return output;
  }
  Tensor output = branch(eager, model, op, x);
  if (packed && converts) {
    output = torch::to(eager, output, dtype);
  }
  Tensor sum = torch::add(eager, result, output);
  if (!packed) {
    output.reset();
  }
  result = std::move(sum);
  Tensor cast = packed ? result : torch::to(eager, result, dtype);
  result.reset();
  x.reset();
  return cast;
}

}  // namespace headroom::ir::transformers
