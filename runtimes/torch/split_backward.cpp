#include "runtimes/torch/split_backward.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

using NodeSet = std::unordered_set<const Node*>;

/// The nodes below a root, each after the nodes it points to.
std::vector<Node*> nodes_below(Node* root) {
  std::vector<Node*> order;
  NodeSet seen{root};
  std::vector<std::pair<Node*, std::size_t>> stack{{root, 0}};
  while (!stack.empty()) {
    auto& [node, edge] = stack.back();
    if (edge == node->next.size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    Node* const next = node->next[edge++].node;
    if (next != nullptr && seen.insert(next).second) {
      stack.emplace_back(next, 0);
    }
  }
  return order;
}

/// The nodes of `order` from which `target` can be reached.
NodeSet nodes_above(const std::vector<Node*>& order, const Node* target) {
  NodeSet above{target};
  for (Node* const node : order) {
    for (const Edge& edge : node->next) {
      if (above.contains(edge.node)) {
        above.insert(node);
      }
    }
  }
  return above;
}

/// During its lifetime, edges to nodes outside `run` lead nowhere.
class EdgeMask {
 public:
  EdgeMask(std::span<Node* const> nodes, const NodeSet& run) {
    for (Node* const node : nodes) {
      for (Edge& edge : node->next) {
        if (edge.node != nullptr && !run.contains(edge.node)) {
          masked_.push_back({&edge, std::exchange(edge.node, nullptr)});
        }
      }
    }
  }
  ~EdgeMask() {
    for (const Masked& each : masked_) {
      each.edge->node = each.node;
    }
  }
  EdgeMask(const EdgeMask&) = delete;
  EdgeMask& operator=(const EdgeMask&) = delete;

 private:
  struct Masked {
    Edge* edge;
    Node* node;
  };
  std::vector<Masked> masked_;
};

/// retain_graph=True: restores what nodes have saved when its lifetime ends.
class RetainedGraph {
 public:
  RetainedGraph(std::span<Node* const> nodes, const NodeSet& run) {
    for (Node* const node : nodes) {
      if (run.contains(node)) {
        kept_.push_back({node, node->saved});
      }
    }
  }
  ~RetainedGraph() {
    for (Kept& each : kept_) {
      each.node->saved = std::move(each.saved);
    }
  }
  RetainedGraph(const RetainedGraph&) = delete;
  RetainedGraph& operator=(const RetainedGraph&) = delete;

 private:
  struct Kept {
    Node* node;
    decltype(Node::saved) saved;
  };
  std::vector<Kept> kept_;
};

/// register_prehook: stores the gradients that arrive at each group's node.
class Watch {
 public:
  explicit Watch(std::vector<OwedWeights::Group>& groups) {
    for (OwedWeights::Group& group : groups) {
      Node* const node = group.source;
      watched_.push_back({node, node->apply});
      node->apply = [&group, before = node->apply](Eager& eager, Gradients& grads, Node& self) {
        group.gradient = grads[0];
        return before(eager, grads, self);
      };
    }
  }
  ~Watch() {
    for (auto each = watched_.rbegin(); each != watched_.rend(); ++each) {
      each->node->apply = std::move(each->apply);
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct Watched {
    Node* node;
    Node::Apply apply;
  };
  std::vector<Watched> watched_;
};

/// get_param_groups: for each weight, the first nodes above it that are on a path to the input.
std::vector<OwedWeights::Group> groups_of(const std::vector<Node*>& order, const NodeSet& run,
                                          std::span<const Tensor> weights) {
  std::unordered_map<const Node*, std::vector<Node*>> readers;
  for (Node* const node : order) {
    for (const Edge& edge : node->next) {
      if (edge.node != nullptr && !run.contains(edge.node)) {
        readers[edge.node].push_back(node);
      }
    }
  }
  std::vector<OwedWeights::Group> groups;
  for (const Tensor& weight : weights) {
    if (weight->accumulator == nullptr) {
      continue;
    }
    OwedWeights::Group group;
    Node* node = weight->accumulator;
    while (!run.contains(node) && !readers[node].empty()) {
      group.through.push_back(node);
      node = readers[node].front();
    }
    if (run.contains(node)) {
      group.source = node;
      add_use(node);
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

/// The second part, group by group. Its members are Python's names, which live until they are
/// assigned again.
class WeightPass {
 public:
  explicit WeightPass(Eager& eager) : eager_(eager) {}
  ~WeightPass() { drop_use(source_); }
  WeightPass(const WeightPass&) = delete;
  WeightPass& operator=(const WeightPass&) = delete;

  void run(OwedWeights::Group& group) {
    drop_use(std::exchange(source_, std::exchange(group.source, nullptr)));
    gradient_ = std::move(group.gradient);
    sum_ = computed(eager_, gradient_.shape(), gradient_.dtype(), {&gradient_});
    const NodeSet run(group.through.begin(), group.through.end());
    std::vector<Node*> nodes = group.through;
    nodes.push_back(source_);
    const EdgeMask mask(nodes, run);
    run_from(*(nodes.begin() + 1), group.through.front());
  }

 private:
  /// autograd.grad: hooks of the tensor that the node made do not run again. `maker` computes the
  /// gradient of the weight, which is added to an existing one and keeps its name.
  void run_from(Node* maker, const Node* accumulator) {
    const Tensor root = eager_.alias(sum_, sum_.shape(), false);
    root->grad_fn = source_;
    add_use(source_);
    auto hook = std::exchange(source_->before_apply, nullptr);
    Node::Apply apply = maker->apply;
    if (accumulator->leaf->grad != nullptr) {
      maker->apply = [&](Eager& eager, Gradients& grads, Node& self) {
        Gradients made = apply(eager, grads, self);
        for (std::size_t i = 0; i < made.size(); ++i) {
          if (self.next[i].node == accumulator) {
            weight_gradient_ = made[i];
          }
        }
        return made;
      };
    }
    eager_.backward(root, sum_);
    maker->apply = std::move(apply);
    source_->before_apply = std::move(hook);
  }

  Eager& eager_;
  Node* source_ = nullptr;
  Tensor gradient_;
  Tensor sum_;
  Tensor weight_gradient_;
};

}  // namespace

OwedWeights::~OwedWeights() {
  for (const Group& group : groups) {
    drop_use(group.source);
  }
}

OwedWeights backward_input(Eager& eager, const Tensor& root, const Tensor& seed,
                           const Tensor& input, std::span<const Tensor> weights) {
  const std::vector<Node*> order = nodes_below(root->grad_fn);
  const NodeSet run = nodes_above(order, input->accumulator);
  OwedWeights owed;
  owed.groups = groups_of(order, run, weights);
  const EdgeMask mask(order, run);
  const RetainedGraph graph(order, run);
  const Watch watch(owed.groups);
  eager.backward(root, seed);
  return owed;
}

void backward_weights(Eager& eager, OwedWeights owed) {
  WeightPass pass(eager);
  for (OwedWeights::Group& group : owed.groups) {
    pass.run(group);
  }
}

}  // namespace headroom::ir::torch
