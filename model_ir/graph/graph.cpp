#include "model_ir/graph/graph.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include <boost/graph/adjacency_list.hpp>

#include "model_ir/base/check.h"

namespace headroom::ir {
namespace {

/// vecS vertices: a vertex descriptor is a stable index. vecS edges: each vertex has few, and
/// several tensors may join the same two operators. Bidirectional: both readers and producers are
/// queried.
using Adjacency = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS>;

constexpr NodeId kNoNode{UINT32_MAX};

}  // namespace

struct Graph::Impl {
  Adjacency adjacency;
  std::vector<Op> ops;
  std::vector<TensorInfo> tensors;
  std::vector<NodeId> producer;
  std::vector<NodeId> last_reader;
  std::vector<LayerRange> layers;
  std::vector<TensorId> parameters;
  bool layer_open = false;
};

Graph::Graph() : impl_(std::make_unique<Impl>()) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

TensorId Graph::add_tensor(TensorInfo info) {
  const TensorId id{static_cast<std::uint32_t>(impl_->tensors.size())};
  if (info.kind == ValueKind::kParameter) {
    impl_->parameters.push_back(id);
  }
  impl_->tensors.push_back(std::move(info));
  impl_->producer.push_back(kNoNode);
  impl_->last_reader.push_back(kNoNode);
  return id;
}

NodeId Graph::add_op(Op op) {
  const NodeId id{static_cast<std::uint32_t>(impl_->ops.size())};
  boost::add_vertex(impl_->adjacency);
  for (const TensorId input : op.inputs) {
    const NodeId producer = impl_->producer.at(index_of(input));
    if (producer == kNoNode) {
      HEADROOM_ASSERT(impl_->tensors[index_of(input)].kind != ValueKind::kActivation);
    } else {
      boost::add_edge(index_of(producer), index_of(id), impl_->adjacency);
    }
    impl_->last_reader[index_of(input)] = id;
  }
  for (const TensorId output : op.outputs) {
    HEADROOM_ASSERT(impl_->producer.at(index_of(output)) == kNoNode);
    impl_->producer[index_of(output)] = id;
  }
  if (impl_->layer_open) {
    op.layer = impl_->layers.back().layer;
    impl_->layers.back().last = id;
  }
  impl_->ops.push_back(std::move(op));
  return id;
}

void Graph::begin_layer(std::int32_t layer, TensorId input) {
  HEADROOM_ASSERT(!impl_->layer_open);
  const NodeId next{static_cast<std::uint32_t>(impl_->ops.size())};
  impl_->layers.push_back(
      {.layer = layer, .first = next, .last = next, .input = input, .output = input});
  impl_->layer_open = true;
}

void Graph::end_layer(TensorId output) {
  HEADROOM_ASSERT(impl_->layer_open);
  impl_->layers.back().output = output;
  impl_->layer_open = false;
}

const TensorInfo& Graph::tensor(TensorId id) const {
  return impl_->tensors.at(index_of(id));
}
const Op& Graph::op(NodeId id) const {
  return impl_->ops.at(index_of(id));
}
std::size_t Graph::tensor_count() const {
  return impl_->tensors.size();
}
std::size_t Graph::op_count() const {
  return impl_->ops.size();
}
std::span<const LayerRange> Graph::layers() const {
  return impl_->layers;
}
std::span<const TensorId> Graph::parameters() const {
  return impl_->parameters;
}

NodeId Graph::last_reader(TensorId id) const {
  const NodeId reader = impl_->last_reader.at(index_of(id));
  return reader == kNoNode ? impl_->producer.at(index_of(id)) : reader;
}

std::vector<NodeId> Graph::readers(NodeId id) const {
  std::vector<NodeId> nodes;
  const auto [begin, end] = boost::out_edges(index_of(id), impl_->adjacency);
  for (auto edge = begin; edge != end; ++edge) {
    nodes.push_back(NodeId{static_cast<std::uint32_t>(boost::target(*edge, impl_->adjacency))});
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

std::vector<NodeId> Graph::topological_order() const {
  std::vector<std::size_t> missing(op_count());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t node = 0; node < missing.size(); ++node) {
    missing[node] = boost::in_degree(node, impl_->adjacency);
    if (missing[node] == 0) {
      ready.push(node);
    }
  }
  std::vector<NodeId> order;
  order.reserve(missing.size());
  while (!ready.empty()) {
    const std::size_t node = ready.top();
    ready.pop();
    order.push_back(NodeId{static_cast<std::uint32_t>(node)});
    const auto [begin, end] = boost::out_edges(node, impl_->adjacency);
    for (auto edge = begin; edge != end; ++edge) {
      const std::size_t reader = boost::target(*edge, impl_->adjacency);
      if (--missing[reader] == 0) {
        ready.push(reader);
      }
    }
  }
  return order;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t total = 0;
  for (const TensorId id : graph.parameters()) {
    total += graph.tensor(id).elements();
  }
  return total;
}

}  // namespace headroom::ir
