#include "runtimes/megatron/layer_modules.h"

#include <algorithm>
#include <string>
#include <utility>

namespace headroom::ir::megatron {
namespace {

Error no_place(const Op& op) {
  std::string what(name_of(op.kind));
  if (op.role != OpRole::kNone) {
    what += " (" + std::string(name_of(op.role)) + ")";
  }
  return Error::invalid_argument("megatron", "is not supported for a layer with " + what, {},
                                 "leave out --megatron, or use --fsdp or --zero 3");
}

bool has_bias(const Op& op) {
  return op.parameters.size() > 1;
}

/// Records a linear layer; returns false if the specification does not support it.
bool note_linear(const Op& op, LayerModules& modules) {
  switch (op.role) {
    case OpRole::kQuery:
    case OpRole::kKey:
    case OpRole::kValue:
    case OpRole::kQkv:
      modules.qkv_bias = modules.qkv_bias || has_bias(op);
      return true;
    case OpRole::kAttentionOutput:
      modules.output_bias = has_bias(op);
      return true;
    case OpRole::kGate:
    case OpRole::kGateUp:
      modules.gated = true;
      return true;
    case OpRole::kUp:
    case OpRole::kDown:
      modules.mlp_bias = has_bias(op);
      return true;
    case OpRole::kSharedGate:
    case OpRole::kSharedUp:
    case OpRole::kSharedDown:
    case OpRole::kLatentQueryDown:
    case OpRole::kLatentQueryUp:
    case OpRole::kLatentKvDown:
    case OpRole::kLatentKvUp:
      return !has_bias(op);
    default:
      return false;
  }
}

bool note_norm(const Op& op, LayerModules& modules) {
  modules.rms_norm = op.norm == NormKind::kRms || op.norm == NormKind::kRmsFp32;
  const bool inside = op.role == OpRole::kLatentQueryNorm || op.role == OpRole::kLatentKvNorm;
  const bool before = op.role == OpRole::kAttentionNorm || op.role == OpRole::kMlpNorm;
  return (inside || before) && (modules.rms_norm || op.norm == NormKind::kLayer);
}

bool note(const Op& op, LayerModules& modules) {
  switch (op.kind) {
    case OpKind::kNorm:
      return note_norm(op, modules);
    case OpKind::kLinear:
      return note_linear(op, modules);
    case OpKind::kHeadNorm:
      modules.head_norms = true;
      return true;
    case OpKind::kRope:
      modules.rope = true;
      return true;
    case OpKind::kAttention:
      modules.attention_dropout = op.probability;
      modules.window = op.window.value_or(0);
      modules.sinks = !op.parameters.empty();
      return op.causal;
    case OpKind::kDropout:
      modules.hidden_dropout = op.probability;
      return true;
    case OpKind::kRouter:
      modules.sparse = true;
      return true;
    case OpKind::kExperts:
      modules.expert_bias = op.gate == ExpertGate::kInterleavedClamped;
      // SiLU has a gate. GELU has one only in experts with biases.
      modules.gated = modules.expert_bias || op.activation == Activation::kSilu;
      return true;
    case OpKind::kSplitQkv:
    case OpKind::kSplitGateUp:
    case OpKind::kActivation:
    case OpKind::kMultiply:
    case OpKind::kAdd:
    case OpKind::kLatentQkv:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<LayerModules> layer_modules(const Graph& graph, const LayerRange& range) {
  LayerModules modules;
  for (std::size_t at = index_of(range.first); at <= index_of(range.last); ++at) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(at)});
    if (!note(op, modules)) {
      return no_place(op);
    }
  }
  return modules;
}

Result<std::vector<LayerModules>> all_layer_modules(const ModelSpec& model,
                                                    const BatchShape& batch) {
  ModelSpec kinds = model;
  kinds.layers.clear();
  std::vector<std::size_t> kind_of;
  for (const LayerSpec& layer : model.layers) {
    const auto known = std::ranges::find(kinds.layers, layer);
    kind_of.push_back(static_cast<std::size_t>(known - kinds.layers.begin()));
    if (known == kinds.layers.end()) {
      kinds.layers.push_back(layer);
    }
  }
  const Graph graph = build_graph(kinds, batch);
  std::vector<LayerModules> modules;
  for (const LayerRange& range : graph.layers()) {
    Result<LayerModules> one = layer_modules(graph, range);
    if (!one) {
      return std::move(one).error();
    }
    modules.push_back(one.value());
  }
  std::vector<LayerModules> all;
  for (const std::size_t kind : kind_of) {
    all.push_back(modules[kind]);
  }
  return all;
}

}  // namespace headroom::ir::megatron
