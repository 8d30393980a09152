#include "runtimes/transformers/expert_adapter.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// The former names of an expert's linear layers and of the router.
struct ExpertNames {
  std::string_view router, gate, up, down;
};

ExpertNames names_of(ExpertLayers layers) {
  return layers == ExpertLayers::kMixtral
             ? ExpertNames{.router = "gate", .gate = "w1", .up = "w3", .down = "w2"}
             : ExpertNames{
                   .router = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
}

ExpertLayers layers_of(const ModelSpec& spec) {
  return spec.recording ? expert_layers_of_type(spec.recording->model)
                        : modeling_of(spec.family).expert_layers;
}

bool wants(const LoraPlan& lora, std::string_view name) {
  return lora.targets.empty() ||
         std::find(lora.targets.begin(), lora.targets.end(), name) != lora.targets.end();
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

constexpr std::string_view kFused = "experts.gate_up_proj";

}  // namespace

bool names_expert_part(const ModelSpec& spec, std::string_view name) {
  const ExpertLayers layers = layers_of(spec);
  if (layers == ExpertLayers::kNone) {
    return false;
  }
  const ExpertNames names = names_of(layers);
  return name == names.router || name == names.gate || name == names.up || name == names.down;
}

bool is_linear_router(const Op& router) {
  return router.router == RouterForm::kSoftmaxFp32 || router.router == RouterForm::kSoftmax;
}

std::set<TensorId> expert_linears(const Graph& graph) {
  std::set<TensorId> linears;
  const Op* router = nullptr;
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    router = op.kind == OpKind::kRouter ? &op : router;
    if (op.kind != OpKind::kExperts || graph.tensor(op.parameters[0]).dims.size() != 2) {
      continue;
    }
    linears.insert(op.parameters.begin(), op.parameters.end());
    if (is_linear_router(*router)) {
      linears.insert(router->parameters[0]);
    }
  }
  return linears;
}

bool adapts_experts(const ModelSpec& spec, const LoraPlan& lora) {
  const ExpertLayers layers = layers_of(spec);
  if (layers == ExpertLayers::kNone || (!spec.moe && !spec.recording)) {
    return false;
  }
  const ExpertNames names = names_of(layers);
  return wants(lora, names.router) || wants(lora, names.gate) || wants(lora, names.up) ||
         wants(lora, names.down);
}

std::vector<TensorId> expert_targets(const ModelSpec& spec, const Graph& graph,
                                     const LoraPlan& lora) {
  const ExpertLayers layers = layers_of(spec);
  std::vector<TensorId> targets;
  if (layers == ExpertLayers::kNone || !expert_linears(graph).empty()) {
    return targets;
  }
  const ExpertNames names = names_of(layers);
  for (const TensorId id : graph.parameters()) {
    const std::string& name = graph.tensor(id).name;
    const bool router = ends_with(name, ".gate.weight") && wants(lora, names.router);
    const bool fused = ends_with(name, kFused) && wants(lora, names.gate);
    const bool down = ends_with(name, "experts.down_proj") && wants(lora, names.down);
    if (router || fused || down) {
      targets.push_back(id);
    }
  }
  return targets;
}

Adapter make_expert_adapter(Eager& eager, const Model& model, TensorId id, const LoraPlan& lora) {
  const TensorInfo& info = model.graph->tensor(id);
  const std::vector<std::int64_t>& dims = info.dims;
  const DType dtype = model.parameters[index_of(id)].dtype();
  const std::int64_t experts = dims.size() == 3 ? dims[0] : 1;
  const std::int64_t rank = lora.rank * experts * (ends_with(info.name, kFused) ? 2 : 1);
  Adapter adapter;
  adapter.a = eager.parameter({rank, dims.back()}, dtype, true);
  adapter.b = eager.parameter({dims[dims.size() - 2], rank}, dtype, true);
  return adapter;
}

FoldedWeight factors_of(Eager& eager, const Model& model, TensorId id) {
  FoldedWeight weight;
  weight.base = model.parameters[index_of(id)];
  const auto found = model.adapters.find(static_cast<std::uint32_t>(id));
  if (found == model.adapters.end()) {
    return weight;
  }
  const Adapter& adapter = found->second;
  const Shape& shape = weight.base.shape();
  const std::int64_t rank = adapter.a.shape()[0] / shape[0];
  const Tensor right = torch::view(eager, adapter.a, {shape[0], rank, shape[2]});
  const Tensor left = torch::permuted(eager, adapter.b, {shape[0], shape[1], rank});
  weight.left = torch::to(eager, left, weight.base.dtype());
  weight.right = torch::to(eager, right, weight.base.dtype());
  { const Tensor tried = fold(eager, weight); }
  return weight;
}

Tensor fold(Eager& eager, const FoldedWeight& weight) {
  return weight.left.defined() ? torch::add_products(eager, weight.base, weight.left, weight.right)
                               : weight.base;
}

RouterWeight router_weight_of(Eager& eager, const Model& model, TensorId id) {
  RouterWeight weight;
  weight.base = model.parameters[index_of(id)];
  const auto found = model.adapters.find(static_cast<std::uint32_t>(id));
  if (found == model.adapters.end()) {
    return weight;
  }
  {
    const Tensor a = torch::autocast_argument(eager, found->second.a);
    const Tensor b = torch::autocast_argument(eager, found->second.b);
    Tensor product = torch::conv1d(eager, b, a, {});  // b @ a
    product = torch::scale(eager, product);
    weight.delta = torch::to(eager, product, weight.base.dtype());
  }
  { const Tensor tried = sum(eager, weight); }
  return weight;
}

Tensor sum(Eager& eager, const RouterWeight& weight) {
  return weight.delta.defined() ? torch::add(eager, weight.base, weight.delta) : weight.base;
}

}  // namespace headroom::ir::transformers
