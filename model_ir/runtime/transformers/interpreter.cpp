#include <algorithm>
#include <cmath>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/runtime/torch/checkpoint.h"
#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/transformers/adapter.h"
#include "model_ir/runtime/transformers/attention.h"
#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/norm.h"

namespace headroom::ir::transformers {

using torch::Shape;
using torch::Tensor;

Interpreter::Interpreter(torch::Eager& eager, Model& model)
    : eager_(eager),
      model_(model),
      values_(model.graph->tensor_count()),
      entered_(model.graph->tensor_count(), false) {}

const Tensor& Interpreter::value(const Op& op, std::size_t index) const {
  const Tensor& tensor = values_[index_of(op.inputs.at(index))];
  HEADROOM_ASSERT(tensor.defined());
  return tensor;
}

Tensor Interpreter::parameter(const Op& op, std::size_t index) const {
  return index < op.parameters.size() ? model_.parameters[index_of(op.parameters[index])]
                                      : Tensor{};
}

void Interpreter::leave_module() {
  // Its own names first, then what its caller held for it.
  for (std::vector<TensorId>* names : {&locals_, &arguments_}) {
    for (const TensorId id : *names) {
      values_[index_of(id)].reset();
    }
    names->clear();
  }
  module_ = Module::kNone;
}

namespace {

/// Families whose layers give the outputs of attention and MLP names of their own, which live
/// until the layer returns (`attn_output + residual`), instead of assigning `hidden_states` anew.
bool names_sublayers(Family family) {
  return family == Family::kGpt2;
}

}  // namespace

void Interpreter::drop_inputs(NodeId id) {
  const Op& op = model_.graph->op(id);
  // The value added to the residual stream is the name that is assigned again: it goes first.
  std::vector<TensorId> inputs = op.inputs;
  if (op.kind == OpKind::kAdd) {
    std::reverse(inputs.begin(), inputs.end());
  }
  for (const TensorId input : inputs) {
    const bool last = model_.graph->last_reader(input) == id;
    if (!last || !values_[index_of(input)].defined()) {
      continue;
    }
    const bool argument =
        op.module != Module::kNone && op.module != Module::kHead && entered_[index_of(input)];
    const bool local = op.kind == OpKind::kAttention;
    if (argument || local) {
      (argument ? arguments_ : locals_).push_back(input);
    } else if (op.kind == OpKind::kAdd && op.layer >= 0 && input == op.inputs[1] &&
               names_sublayers(model_.spec->family)) {
      layer_names_.push_back(std::move(values_[index_of(input)]));
    } else {
      values_[index_of(input)].reset();
    }
  }
}

void Interpreter::run(NodeId first, NodeId last) {
  for (std::size_t at = index_of(first); at <= index_of(last); ++at) {
    const NodeId id{static_cast<std::uint32_t>(at)};
    const Op& op = model_.graph->op(id);
    if (op.module != module_) {
      leave_module();
      module_ = op.module;
      for (std::size_t i = 0; module_ != Module::kNone && i < op.inputs.size(); ++i) {
        entered_[index_of(op.inputs[i])] = true;
      }
    }
    if (model_.before_layer) {
      model_.before_layer(op.layer);
    }
    eager_.set_site(name_of(op.kind), op.layer);
    run_op(id);
    drop_inputs(id);
  }
  leave_module();
}

void Interpreter::clear(const LayerRange& range) {
  for (std::size_t at = index_of(range.first); at <= index_of(range.last); ++at) {
    for (const TensorId output : model_.graph->op(NodeId{static_cast<std::uint32_t>(at)}).outputs) {
      values_[index_of(output)].reset();
    }
  }
  values_[index_of(range.input)].reset();
  attention_weights_.reset();
  layer_names_.clear();
  locals_.clear();
  arguments_.clear();
  module_ = Module::kNone;
}

Tensor Interpreter::run_layer(const LayerRange& range, const Tensor& input) {
  values_[index_of(range.input)] = input;
  try {
    run(range.first, range.last);
  } catch (const torch::StopRecomputation&) {
    clear(range);  // The stack of a recomputation unwinds, and its names with it.
    throw;
  }
  attention_weights_.reset();
  layer_names_.clear();
  values_[index_of(range.input)].reset();
  return take(range.output);
}

Tensor Interpreter::run_linear(const Op& op) {
  const Tensor weight = parameter(op, 0);
  const Tensor bias = parameter(op, 1);
  const auto adapter = model_.adapters.find(static_cast<std::uint32_t>(op.parameters[0]));
  if (adapter != model_.adapters.end()) {
    return adapted_linear(eager_, model_, value(op, 0), weight, bias, adapter->second);
  }
  return model_.spec->qkv == QkvLayout::kFusedConv1d && op.role != OpRole::kHead
             ? torch::conv1d(eager_, value(op, 0), weight, bias)
             : torch::linear(eager_, value(op, 0), weight, bias);
}

Tensor Interpreter::run_head_norm(const Op& op) {
  const Tensor& input = value(op, 0);
  const Shape& shape = input.shape();
  const std::int64_t dim = model_.spec->head_dim;
  const Tensor weight = parameter(op, 0);
  if (weight.elements() == shape[2]) {  // One weight over all heads.
    return split(eager_, norm(eager_, op.norm, input, weight, parameter(op, 1)), dim);
  }
  const Tensor heads = torch::view(eager_, input, {shape[0], shape[1], shape[2] / dim, dim});
  const Tensor normalised = norm(eager_, op.norm, heads, weight, parameter(op, 1));
  return torch::transpose_heads(eager_, normalised);
}

/// Queries, keys and values are seen as heads as soon as they are made, unless a norm comes first.
Tensor Interpreter::as_heads(const Op& op, Tensor projected) {
  const bool projection =
      op.role == OpRole::kQuery || op.role == OpRole::kKey || op.role == OpRole::kValue;
  if (!projection || model_.spec->latent) {
    return projected;
  }
  const Op& reader = model_.graph->op(model_.graph->last_reader(op.outputs[0]));
  return reader.kind == OpKind::kHeadNorm ? projected
                                          : split(eager_, projected, model_.spec->head_dim);
}

bool Interpreter::runs(OpKind kind) {
  switch (kind) {
    case OpKind::kTokenTypes:
    case OpKind::kLatentQkv:
    case OpKind::kRouter:
    case OpKind::kExperts:
    case OpKind::kSharedGate:
      return false;
    default:
      return true;
  }
}

void Interpreter::run_op(NodeId id) {
  const Op& op = model_.graph->op(id);
  const auto store = [&](Tensor result) {
    values_[index_of(op.outputs.at(0))] = std::move(result);
  };
  switch (op.kind) {
    case OpKind::kEmbedding:
      return store(torch::embedding(eager_, parameter(op, 0), value(op, 0)));
    case OpKind::kPositions: {
      shared_.position_rows = torch::embedding(eager_, parameter(op, 0), shared_.position_ids);
      return store(torch::add(eager_, value(op, 0), shared_.position_rows));
    }
    case OpKind::kNorm:
      return store(norm(eager_, op.norm, value(op, 0), parameter(op, 0), parameter(op, 1)));
    case OpKind::kHeadNorm:
      return store(run_head_norm(op));
    case OpKind::kLinear:
      return store(as_heads(op, run_linear(op)));
    case OpKind::kSplitQkv:
      return run_split_qkv(op);
    case OpKind::kRope:
      return run_rope(op);
    case OpKind::kAttention:
      return run_attention(op);
    case OpKind::kActivation:
      return store(activation(eager_, op.activation, value(op, 0)));
    case OpKind::kSplitGateUp:
      return run_split_gate_up(op);
    case OpKind::kMultiply:
      return store(torch::mul(eager_, value(op, 0), value(op, 1)));
    case OpKind::kAdd:
      return store(torch::add(eager_, value(op, 0), value(op, 1)));
    case OpKind::kScale:
      return store(torch::scale(eager_, value(op, 0)));
    case OpKind::kSoftcap: {
      Tensor logits = torch::scale(eager_, value(op, 0));
      values_[index_of(op.inputs[0])].reset();  // The name is assigned anew.
      logits = torch::tanh(eager_, logits);
      return store(torch::scale(eager_, logits));
    }
    case OpKind::kDropout:
      return store(torch::dropout(eager_, value(op, 0), model_.training ? op.probability : 0));
    case OpKind::kTokenTypes:
    case OpKind::kLatentQkv:
    case OpKind::kRouter:
    case OpKind::kExperts:
    case OpKind::kSharedGate:
    case OpKind::kCrossEntropy:
      break;
  }
  HEADROOM_ASSERT(false);
}

void Interpreter::run_split_qkv(const Op& op) {
  const Tensor& fused = value(op, 0);
  if (model_.spec->family == Family::kGpt2) {  // .split(): one operator.
    std::vector<std::int64_t> widths;
    for (const TensorId output : op.outputs) {
      widths.push_back(model_.graph->tensor(output).dims.back());
    }
    std::vector<Tensor> parts = torch::split_last(eager_, fused, widths);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      values_[index_of(op.outputs[i])] = std::move(parts[i]);
    }
    return;
  }
  for (const TensorId output : op.outputs) {
    values_[index_of(output)] =
        torch::slice_last(eager_, fused, model_.graph->tensor(output).dims.back());
  }
}

void Interpreter::run_split_gate_up(const Op& op) {
  auto [gate, up] = torch::chunk_last(eager_, value(op, 0));
  values_[index_of(op.outputs[0])] = std::move(gate);
  values_[index_of(op.outputs[1])] = std::move(up);
}

void Interpreter::run_rope(const Op& op) {
  const std::int64_t dim = model_.spec->head_dim;
  const bool local = model_.spec->local_rope &&
                     model_.spec->layers[static_cast<std::size_t>(op.layer)].window.has_value();
  const Tensor& cos = local ? shared_.local_cos : shared_.cos;
  const Tensor& sin = local ? shared_.local_sin : shared_.sin;
  Tensor q = split(eager_, value(op, 0), dim);
  Tensor k = split(eager_, value(op, 1), dim);
  if (model_.spec->family == Family::kCohere) {
    const DType dtype = q.dtype();
    q = torch::to(eager_, q, DType::kFp32);
    k = torch::to(eager_, k, DType::kFp32);
    Tensor q_wide = apply_rope(eager_, *model_.spec, q, cos, sin);
    Tensor k_wide = apply_rope(eager_, *model_.spec, k, cos, sin);
    values_[index_of(op.outputs[0])] = torch::to(eager_, q_wide, dtype);
    values_[index_of(op.outputs[1])] = torch::to(eager_, k_wide, dtype);
    return;
  }
  Tensor q_rotated = apply_rope(eager_, *model_.spec, q, cos, sin);
  Tensor k_rotated = apply_rope(eager_, *model_.spec, k, cos, sin);
  values_[index_of(op.outputs[0])] = std::move(q_rotated);
  values_[index_of(op.outputs[1])] = std::move(k_rotated);
}

void Interpreter::run_attention(const Op& op) {
  const std::int64_t dim = model_.spec->head_dim;
  AttentionInput input;
  input.q = split(eager_, value(op, 0), dim);
  input.k = split(eager_, value(op, 1), dim);
  input.v = split(eager_, value(op, 2), dim);
  input.dropout = model_.training ? op.probability : 0;
  input.mask = op.window ? shared_.window_mask : shared_.mask;
  AttentionOutput result = attention(eager_, *model_.plan, *model_.spec, input);
  values_[index_of(op.outputs[0])] = std::move(result.output);
  attention_weights_ = std::move(result.weights);
}

}  // namespace headroom::ir::transformers
