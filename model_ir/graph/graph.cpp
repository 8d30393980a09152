#include "model_ir/graph/graph.h"

#include <utility>

#include "model_ir/base/check.h"

namespace headroom::ir {
namespace {

constexpr NodeId kNoNode{UINT32_MAX};

}  // namespace

TensorId Graph::add_tensor(TensorInfo info) {
  const TensorId id{static_cast<std::uint32_t>(tensors_.size())};
  if (info.kind == ValueKind::kParameter) {
    parameters_.push_back(id);
  }
  tensors_.push_back(std::move(info));
  producer_.push_back(kNoNode);
  last_reader_.push_back(kNoNode);
  return id;
}

NodeId Graph::add_op(Op op) {
  const NodeId id{static_cast<std::uint32_t>(ops_.size())};
  for (const TensorId input : op.inputs) {
    HEADROOM_ASSERT(producer_.at(index_of(input)) != kNoNode ||
                    tensors_[index_of(input)].kind != ValueKind::kActivation);
    last_reader_[index_of(input)] = id;
  }
  for (const TensorId output : op.outputs) {
    HEADROOM_ASSERT(producer_.at(index_of(output)) == kNoNode);
    producer_[index_of(output)] = id;
  }
  if (layer_open_) {
    op.layer = layers_.back().layer;
    layers_.back().last = id;
  }
  ops_.push_back(std::move(op));
  return id;
}

void Graph::begin_layer(std::int32_t layer, TensorId input) {
  HEADROOM_ASSERT(!layer_open_);
  const NodeId next{static_cast<std::uint32_t>(ops_.size())};
  layers_.push_back({.layer = layer, .first = next, .last = next, .input = input, .output = input});
  layer_open_ = true;
}

void Graph::end_layer(TensorId output) {
  HEADROOM_ASSERT(layer_open_);
  layers_.back().output = output;
  layer_open_ = false;
}

const TensorInfo& Graph::tensor(TensorId id) const {
  return tensors_.at(index_of(id));
}
const Op& Graph::op(NodeId id) const {
  return ops_.at(index_of(id));
}
std::size_t Graph::tensor_count() const {
  return tensors_.size();
}
std::size_t Graph::op_count() const {
  return ops_.size();
}
std::span<const LayerRange> Graph::layers() const {
  return layers_;
}
std::span<const TensorId> Graph::parameters() const {
  return parameters_;
}

NodeId Graph::last_reader(TensorId id) const {
  const NodeId reader = last_reader_.at(index_of(id));
  return reader == kNoNode ? producer_.at(index_of(id)) : reader;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t total = 0;
  for (const TensorId id : graph.parameters()) {
    total += graph.tensor(id).elements();
  }
  return total;
}

}  // namespace headroom::ir
