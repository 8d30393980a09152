#pragma once

#include <span>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/node.h"

/// A backward in two parts, as pipelines with zero bubbles run it: the gradient of a stage's input
/// first, those of its weights later.
/// Source: pytorch/pytorch 2.11 torch/distributed/pipelining/_backward.py.
namespace headroom::ir::torch {

/// What the second part needs: for each weight the node that its gradient comes from, what came to
/// that node, and through which nodes it goes on. The nodes keep the graph below them.
class OwedWeights {
 public:
  OwedWeights() = default;
  OwedWeights(OwedWeights&& other) noexcept = default;
  OwedWeights& operator=(OwedWeights&& other) noexcept = default;
  OwedWeights(const OwedWeights&) = delete;
  OwedWeights& operator=(const OwedWeights&) = delete;
  ~OwedWeights();

  struct Group {
    Node* source = nullptr;      ///< Counted.
    std::vector<Node*> through;  ///< Up to the weight; the graph holds them.
    Tensor gradient;             ///< That came to `source`.
  };
  std::vector<Group> groups;
};

/// stage_backward_input: from `root` to the leaf `input`, whose gradient it gets. The graph stays,
/// but for what only `root` holds. Nothing else gets a gradient.
/// Model:  nodes on no way to the input do not run; the others compute no gradients for them.
[[nodiscard]] OwedWeights backward_input(Eager& eager, const Tensor& root, const Tensor& seed,
                                         const Tensor& input, std::span<const Tensor> weights);

/// stage_backward_weight: in the order of the weights; a sum of what came to each node is made, as
/// Python's sum() does of one tensor.
void backward_weights(Eager& eager, OwedWeights owed);

}  // namespace headroom::ir::torch
