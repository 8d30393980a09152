// The autograd engine's device thread.

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model_ir/base/check.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/torch/reduce.h"

namespace headroom::ir::torch {
namespace {

/// What a node waits for, and the gradients that have arrived.
struct Pending {
  int dependencies = 0;
  Gradients buffer;
};

using PendingMap = std::unordered_map<Node*, Pending>;

/// Counts, for every node reachable from `root`, the edges that lead to it.
/// Source: torch/csrc/autograd/engine.cpp, Engine::compute_dependencies.
PendingMap count_dependencies(Node* root) {
  PendingMap pending;
  pending.reserve(1024);
  std::vector<Node*> stack{root};
  pending[root];
  while (!stack.empty()) {
    Node* const node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->next) {
      if (edge.node == nullptr) {
        continue;
      }
      const auto [entry, fresh] = pending.try_emplace(edge.node);
      ++entry->second.dependencies;
      if (fresh) {
        stack.push_back(edge.node);
      }
    }
  }
  return pending;
}

/// Adds `gradient` to what has arrived. In place only when nobody else can see the old sum.
/// Source: torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace and accumulate.
void accumulate(Eager& eager, Tensor& slot, Tensor gradient) {
  if (!slot.defined()) {
    slot = std::move(gradient);
    return;
  }
  const bool in_place = !slot->tracked_view && slot->uses == 1 && slot->storage->uses == 1;
  if (!in_place) {
    slot = eager.empty(slot.shape(), slot.dtype());
  }
}

/// AccumulateGrad: the first gradient is stolen, later ones are added in place.
/// Source: torch/csrc/autograd/functions/accumulate_grad.h, accumulateGrad.
void accumulate_leaf(Eager& eager, Node& node, Gradients& gradients) {
  TensorImpl* const leaf = node.leaf;
  Tensor& gradient = gradients[0];
  if (leaf->grad == nullptr) {
    const bool steal = gradient->uses <= 1;
    Tensor own = steal ? eager.alias(gradient, gradient.shape(), false)
                       : eager.empty(gradient.shape(), gradient.dtype(), TensorRole::kGradient);
    if (leaf->leaf_parameter) {
      eager.relabel(own, TensorRole::kGradient);
    }
    own->tracked_view = false;
    leaf->grad = own.impl();
    ++leaf->grad->uses;
  }
  gradients.clear();
  if (node.after_accumulate) {
    node.after_accumulate(eager);
  }
}

/// Brings gradients to the shape and type of the inputs they belong to.
/// Source: torch/csrc/autograd/engine.cpp, validate_outputs.
void validate(Eager& eager, const Node& node, Gradients& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor& gradient = gradients[i];
    if (!gradient.defined() || !node.wants(i)) {
      continue;
    }
    if (gradient.elements() != node.input_shapes[i].elements()) {
      gradient = sum_to(eager, std::move(gradient), node.input_shapes[i]);
    }
    if (gradient.dtype() != node.input_dtypes[i]) {
      gradient = eager.empty(gradient.shape(), node.input_dtypes[i]);
    }
  }
}

/// Nodes that may run, the greatest sequence number first; among equals the first to come.
class ReadyQueue {
 public:
  void push(Node* node) {
    heap_.push_back({node->sequence, ~arrival_++, node});
    std::push_heap(heap_.begin(), heap_.end());
  }
  Node* pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    Node* const node = heap_.back().node;
    heap_.pop_back();
    return node;
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }

 private:
  struct Entry {
    std::uint64_t sequence;
    std::uint64_t arrival;
    Node* node;
    bool operator<(const Entry& other) const {
      return sequence != other.sequence ? sequence < other.sequence : arrival < other.arrival;
    }
  };
  std::vector<Entry> heap_;
  std::uint64_t arrival_ = 0;
};

Gradients run_node(Eager& eager, Node& node, Gradients inputs) {
  if (node.leaf != nullptr) {
    accumulate_leaf(eager, node, inputs);
    return {};
  }
  Gradients outputs = node.apply(eager, inputs, node);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!node.wants(i)) {
      outputs[i].reset();
    }
  }
  validate(eager, node, outputs);
  return outputs;
}

}  // namespace

void Eager::backward(const Tensor& root, const Tensor& seed) {
  Node* const first = root->grad_fn;
  HEADROOM_ASSERT(first != nullptr);
  const GradMode grad(*this, false);
  const std::int32_t layer_before = layer_;
  const std::uint16_t operation_before = operation_;
  ++backward_depth_;
  PendingMap pending = count_dependencies(first);
  ReadyQueue ready;
  pending[first].buffer.resize(static_cast<std::size_t>(first->inputs));
  pending[first].buffer[static_cast<std::size_t>(root->output_index)] = seed;
  ready.push(first);
  while (!ready.empty()) {
    Node* const node = ready.pop();
    if (node->leaf == nullptr) {
      if (on_backward_layer && node->layer != layer_) {
        on_backward_layer(node->layer);
      }
      set_site(static_cast<std::uint16_t>(node->site_operation), node->layer);
    }
    Gradients outputs = run_node(*this, *node, std::move(pending[node].buffer));
    if (node->leaf == nullptr) {
      set_site(static_cast<std::uint16_t>(node->site_operation), node->layer);
    }
    node->release_saved();
    for (std::size_t i = 0; i < node->next.size(); ++i) {
      const Edge& edge = node->next[i];
      if (edge.node == nullptr) {
        continue;
      }
      Pending& target = pending[edge.node];
      if (i < outputs.size() && outputs[i].defined()) {
        target.buffer.resize(static_cast<std::size_t>(edge.node->inputs));
        accumulate(*this, target.buffer[static_cast<std::size_t>(edge.input_index)],
                   std::move(outputs[i]));
      }
      if (--target.dependencies == 0) {
        ready.push(edge.node);
      }
    }
  }
  --backward_depth_;
  set_site(operation_before, layer_before);
}

}  // namespace headroom::ir::torch
