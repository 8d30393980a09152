#pragma once

#include <span>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/node.h"

/// A backward in two parts, as zero-bubble pipelines run it: first the gradient of a stage's input,
/// later those of its weights.
/// Source: pytorch/pytorch 2.11 torch/distributed/pipelining/_backward.py.
namespace headroom::ir::torch {

/// The input of the second part: for each weight, the node from which its gradient is computed, the
/// gradient that arrived at that node, and the nodes on the path to the weight. The nodes keep the
/// graph below them alive.
class OwedWeights {
 public:
  OwedWeights() = default;
  OwedWeights(OwedWeights&& other) noexcept = default;
  OwedWeights& operator=(OwedWeights&& other) noexcept = default;
  OwedWeights(const OwedWeights&) = delete;
  OwedWeights& operator=(const OwedWeights&) = delete;
  ~OwedWeights();

  struct Group {
    Node* source = nullptr;      ///< Counted reference.
    std::vector<Node*> through;  ///< Nodes up to the weight; the graph keeps them alive.
    Tensor gradient;             ///< The gradient that arrived at `source`.
  };
  std::vector<Group> groups;
};

/// stage_backward_input: runs from `root` to the leaf `input`, which gets its gradient. The graph
/// stays alive, except for what only `root` holds. Nothing else gets a gradient.
/// Model:  nodes that are not on a path to the input do not run; the others compute no gradients
///         for them.
[[nodiscard]] OwedWeights backward_input(Eager& eager, const Tensor& root, const Tensor& seed,
                                         const Tensor& input, std::span<const Tensor> weights);

/// stage_backward_weight: in the order of the weights. The gradient that arrived at each node is
/// summed into a new tensor, as Python's sum() does even for one tensor.
void backward_weights(Eager& eager, OwedWeights owed);

}  // namespace headroom::ir::torch
