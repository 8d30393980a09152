#include "model_ir/graph/builder.h"

#include <string>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/graph/param_table.h"

namespace headroom::ir {
namespace {

/// Parameters outside the layers (layer -1) come first.
std::size_t slot_of(std::int32_t layer) {
  return static_cast<std::size_t>(std::int64_t{layer} + 1);
}

}  // namespace

GraphBuilder::GraphBuilder(const ModelSpec& model, const BatchShape& shape, ExpertWeights experts)
    : model_(model), shape_(shape), experts_(experts) {
  HEADROOM_ASSERT(shape.batch >= 1 && shape.sequence >= 1);
  register_parameters();
}

void GraphBuilder::register_parameters() {
  const std::int64_t encoder = model_.encoder ? model_.encoder->layers : 0;
  entries_.resize(model_.layers.size() + static_cast<std::size_t>(encoder) + 1);
  for (ModelParameter& parameter : parameter_table(model_, experts_)) {
    const bool used = !parameter.info.unused;
    const auto slot = slot_of(parameter.info.layer);
    const TensorId id = graph_.add_tensor(std::move(parameter.info));
    if (used) {
      entries_.at(slot).push_back({parameter.role, parameter.module, id});
    }
  }
}

void GraphBuilder::begin_layer(std::int32_t layer, TensorId input) {
  layer_ = layer;
  graph_.begin_layer(layer, input);
}

void GraphBuilder::end_layer(TensorId output) {
  graph_.end_layer(output);
  layer_ = -1;
}

TensorId GraphBuilder::input(std::string_view name) {
  return graph_.add_tensor({.name = std::string(name),
                            .kind = ValueKind::kInput,
                            .dims = {shape_.batch, shape_.sequence}});
}

TensorId GraphBuilder::input_per_sequence(std::string_view name) {
  return graph_.add_tensor(
      {.name = std::string(name), .kind = ValueKind::kInput, .dims = {shape_.batch}});
}

TensorId GraphBuilder::tensor(std::string_view name, std::vector<std::int64_t> dims) {
  return graph_.add_tensor({.name = std::string(name),
                            .kind = ValueKind::kActivation,
                            .dims = std::move(dims),
                            .layer = layer_});
}

TensorId GraphBuilder::activation(std::string_view name, std::int64_t width) {
  return tensor(name, {shape_.batch, shape_.sequence, width});
}

std::vector<TensorId> GraphBuilder::parameters(OpRole role) const {
  std::vector<TensorId> found;
  const bool cross = module_ == Module::kCrossAttention;
  for (const Entry& entry : entries_[slot_of(layer_)]) {
    // The two attentions of a T5 decoder layer have the same roles.
    if (entry.role == role && (entry.module == Module::kCrossAttention) == cross) {
      found.push_back(entry.id);
    }
  }
  return found;
}

void GraphBuilder::add(Op op) {
  op.module = module_;
  graph_.add_op(std::move(op));
}

TensorId GraphBuilder::same_width(std::string_view name, Op op) {
  const TensorId output = tensor(name, graph_.tensor(op.inputs.front()).dims);
  op.outputs = {output};
  add(std::move(op));
  return output;
}

TensorId GraphBuilder::linear(OpRole role, std::string_view name, TensorId input) {
  std::vector<TensorId> weights = parameters(role);
  HEADROOM_ASSERT(!weights.empty());
  const std::vector<std::int64_t>& weight = graph_.tensor(weights.front()).dims;
  const bool transposed =  // GPT-2: [in, out]
      model_.qkv == QkvLayout::kFusedConv1d && role != OpRole::kHead;
  std::vector<std::int64_t> dims = graph_.tensor(input).dims;
  dims.back() = transposed ? weight.back() : weight.front();
  const TensorId output = tensor(name, std::move(dims));
  add({.kind = OpKind::kLinear,
       .role = role,
       .inputs = {input},
       .parameters = std::move(weights),
       .outputs = {output}});
  return output;
}

TensorId GraphBuilder::norm(OpRole role, TensorId input) {
  std::vector<TensorId> weights = parameters(role);
  HEADROOM_ASSERT(!weights.empty());
  const TensorId output = activation("normed", width(weights.front()));
  add({.kind = OpKind::kNorm,
       .role = role,
       .inputs = {input},
       .parameters = std::move(weights),
       .outputs = {output},
       .norm = model_.norm});
  return output;
}

TensorId GraphBuilder::head_norm(OpRole role, TensorId input) {
  return same_width(role == OpRole::kQueryNorm ? "normed_query" : "normed_key",
                    {.kind = OpKind::kHeadNorm,
                     .role = role,
                     .inputs = {input},
                     .parameters = parameters(role),
                     .norm = model_.norm});
}

TensorId GraphBuilder::act(TensorId input) {
  return same_width(
      "activated",
      {.kind = OpKind::kActivation, .inputs = {input}, .activation = model_.activation});
}

TensorId GraphBuilder::add_residual(TensorId residual, TensorId value) {
  return same_width("hidden", {.kind = OpKind::kAdd, .inputs = {residual, value}});
}

TensorId GraphBuilder::scale(OpRole role, TensorId input) {
  return same_width("scaled", {.kind = OpKind::kScale, .role = role, .inputs = {input}});
}

TensorId GraphBuilder::dropout(TensorId input, double probability) {
  if (probability <= 0) {
    return input;
  }
  return same_width("dropped",
                    {.kind = OpKind::kDropout, .inputs = {input}, .probability = probability});
}

}  // namespace headroom::ir
