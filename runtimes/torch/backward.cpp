// The autograd engine's device thread.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "model_ir/base/check.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::torch {
namespace {

/// The number of gradients that a node waits for, and those that have arrived.
struct Pending {
  int dependencies = 0;
  Gradients buffer;
};

/// The gradients that the nodes of one run of the engine wait for. A node knows its place here, so
/// that finding it needs no search. A run inside another one, such as that of a checkpoint, can
/// reach nodes of the outer run, above all the accumulators of parameters: these get their places
/// back at its end.
class Run {
 public:
  /// Counts, for every node reachable from `root`, the edges that lead to it.
  /// Source: torch/csrc/autograd/engine.cpp, Engine::compute_dependencies.
  explicit Run(Node* root) : number_(++newest()) {
    pending_.reserve(1024);
    std::vector<Node*> stack{root};
    static_cast<void>(reach(*root));
    while (!stack.empty()) {
      Node* const node = stack.back();
      stack.pop_back();
      for (const Edge& edge : node->next) {
        if (edge.node == nullptr) {
          continue;
        }
        if (reach(*edge.node)) {
          stack.push_back(edge.node);
        }
        ++of(*edge.node).dependencies;
      }
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    for (const Before& before : before_) {
      // A node that died in between, and may be another one by now, has no run or a newer one.
      if (before.node->run == number_) {
        before.node->run = before.run;
        before.node->place = before.place;
      }
    }
  }

  /// Requires a node that `root` reaches.
  [[nodiscard]] Pending& of(const Node& node) {
    HEADROOM_ASSERT(node.run == number_);
    return pending_[node.place];
  }

 private:
  struct Before {
    Node* node;
    std::uint64_t run;
    std::uint32_t place;
  };

  /// The number of the newest run of this thread.
  static std::uint64_t& newest() {
    thread_local std::uint64_t number = 0;
    return number;
  }

  /// Gives the node a place; false if it has one already.
  bool reach(Node& node) {
    if (node.run == number_) {
      return false;
    }
    if (node.run != 0) {
      before_.push_back({.node = &node, .run = node.run, .place = node.place});
    }
    node.run = number_;
    node.place = static_cast<std::uint32_t>(pending_.size());
    pending_.emplace_back();
    return true;
  }

  std::uint64_t number_;
  std::vector<Pending> pending_;
  std::vector<Before> before_;  ///< Places in other runs.
};

/// Adds `gradient` to the sum so far. In place only if nobody else can see the old sum; tensor
/// subclasses are never added in place.
/// Source: torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace and accumulate.
void accumulate(Eager& eager, const Node& target, Tensor& slot, Tensor gradient) {
  if (!slot.defined()) {
    slot = std::move(gradient);
    return;
  }
  const bool in_place = !target.distributed && !slot->tracked_view && slot->uses == 1 &&
                        (slot->storage == nullptr || slot->storage->uses == 1);
  if (!in_place) {
    const Layout layout = slot->layout;  // The sum has the layout of its first operand.
    const Tensor before = std::move(slot);
    slot = computed(eager, before.shape(), before.dtype(), {&before, &gradient});
    slot->layout = layout;
  } else {
    launch(eager, {&slot, &gradient, &slot});
  }
}

/// AccumulateGrad: the first gradient is stolen, later ones are added in place.
/// Source: torch/csrc/autograd/functions/accumulate_grad.h, accumulateGrad.
void accumulate_leaf(Eager& eager, Node& node, Gradients& gradients) {
  TensorImpl* const leaf = node.leaf;
  Tensor& gradient = gradients[0];
  if (leaf->grad == nullptr) {
    // A gradient whose layout differs from its variable's is copied.
    const bool fits = leaf->leaf_parameter || gradient->layout == leaf->layout;
    const bool steal = gradient->uses <= 1 && fits;
    Tensor own = steal ? eager.alias(gradient, gradient.shape(), false)
                       : eager.empty(gradient.shape(), gradient.dtype(), TensorRole::kGradient);
    if (!steal) {
      launch_copy(eager, gradient, own,
                  gradient->layout == own->layout ? CopyOrder::kSame : CopyOrder::kOther);
    }
    if (leaf->leaf_parameter) {
      eager.relabel(own, TensorRole::kGradient);
    }
    own->tracked_view = false;
    own->layout = leaf->leaf_parameter ? own->layout : leaf->layout;
    leaf->grad = own.impl();
    ++leaf->grad->uses;
  } else {
    const StreamId before = eager.exchange_stream(node.stream);
    launch(eager, {&gradient, &gradient, &gradient});  // Added in place.
    eager.exchange_stream(before);
  }
  gradients.clear();
  if (node.after_accumulate) {
    node.after_accumulate(eager);
  }
}

/// Converts gradients to the shape and type of the inputs they belong to.
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
      const Layout layout = gradient->layout;
      gradient = computed(eager, gradient.shape(), node.input_dtypes[i], {&gradient});
      gradient->layout = layout;
    }
  }
}

/// Nodes that may run: highest sequence number first, then first in, first out.
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
  const StreamId before = eager.exchange_stream(node.stream);
  const bool unfused_before = eager.exchange_unfused(node.unfused);
  Gradients outputs = node.apply(eager, inputs, node);
  eager.exchange_unfused(unfused_before);
  eager.exchange_stream(before);
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
  std::vector<Tensor> seeds(static_cast<std::size_t>(first->inputs));
  seeds[static_cast<std::size_t>(root->output_index)] = seed;
  run_backward(first, std::move(seeds));
}

/// GraphRoot distributes the seeds; leaves accumulate theirs first.
/// Source: torch/csrc/autograd/functions/basic_ops.h, GraphRoot.
void Eager::backward(std::span<const Tensor> roots, std::vector<Tensor> seeds) {
  auto* const graph_root = make_node();  // References are counted by hand, as for its edges.
  add_use(graph_root);
  graph_root->sequence = std::numeric_limits<std::uint64_t>::max();
  graph_root->layer = layer_;
  graph_root->site_operation = operation_;
  graph_root->inputs = 0;
  for (const Tensor& root : roots) {
    Edge edge;
    edge.node = root->grad_fn != nullptr ? root->grad_fn : accumulator_of(*this, root.impl());
    edge.input_index = root->grad_fn != nullptr ? root->output_index : 0;
    add_use(edge.node);
    graph_root->next.push_back(edge);
    graph_root->input_shapes.push_back(root.shape());
    graph_root->input_dtypes.push_back(root.dtype());
  }
  graph_root->apply = [&seeds](Eager&, Gradients&, Node&) -> Gradients { return std::move(seeds); };
  run_backward(graph_root, {});
  drop_use(graph_root);
}

void Eager::run_backward(Node* first, std::vector<Tensor> seeds) {
  const GradMode grad(*this, false);
  const std::int32_t layer_before = layer_;
  const std::uint16_t operation_before = operation_;
  ++backward_depth_;
  Run run(first);
  ReadyQueue ready;
  StreamId apart = 0;  ///< The stream of leaves that is not the compute stream.
  run.of(*first).buffer = std::move(seeds);
  ready.push(first);
  while (!ready.empty()) {
    Node* const node = ready.pop();
    if (node->leaf == nullptr) {
      set_site(static_cast<std::uint16_t>(node->site_operation), node->layer);
    }
    if (node->before_apply) {
      node->before_apply(*this);
      set_site(static_cast<std::uint16_t>(node->site_operation), node->layer);
    }
    Gradients outputs = run_node(*this, *node, std::move(run.of(*node).buffer));
    if (node->leaf == nullptr) {
      set_site(static_cast<std::uint16_t>(node->site_operation), node->layer);
    }
    node->release_saved();
    for (std::size_t i = 0; i < node->next.size(); ++i) {
      const Edge& edge = node->next[i];
      if (edge.node == nullptr) {
        continue;
      }
      Pending& target = run.of(*edge.node);
      if (i < outputs.size() && outputs[i].defined()) {
        target.buffer.resize(static_cast<std::size_t>(edge.node->inputs));
        // The stream that uses a gradient waits for the stream that made it.
        wait_stream(edge.node->stream, node->stream);
        if (edge.node->leaf != nullptr) {
          apart = edge.node->stream != 0 ? edge.node->stream : apart;
        } else if (edge.node->stream != node->stream) {
          record_stream(outputs[i]);
        }
        const StreamId before = exchange_stream(edge.node->stream);
        accumulate(*this, *edge.node, target.buffer[static_cast<std::size_t>(edge.input_index)],
                   std::move(outputs[i]));
        exchange_stream(before);
      }
      if (--target.dependencies == 0) {
        ready.push(edge.node);
      }
    }
  }
  wait_stream(0, apart);  // The caller's stream waits for the leaves' stream.
  --backward_depth_;
  set_site(operation_before, layer_before);
}

}  // namespace headroom::ir::torch
