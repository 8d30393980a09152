#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/graph/graph.h"

namespace headroom::ir {

/// The violations found so far.
class Violations {
 public:
  explicit Violations(const Graph& graph) : graph_(graph) {}

  void of_op(NodeId id, std::string_view what);
  void of_tensor(TensorId id, std::string_view what);
  void of_layer(const LayerRange& range, std::string_view what);
  [[nodiscard]] std::vector<std::string> take() { return std::move(texts_); }

 private:
  const Graph& graph_;
  std::vector<std::string> texts_;
};

/// What is wrong with the number of an operator's inputs, parameters and outputs.
[[nodiscard]] std::optional<std::string> count_fault(const Op& op);
/// What is wrong with the shapes of an operator whose counts are right.
[[nodiscard]] std::optional<std::string> shape_fault(const Graph& graph, const Op& op);

void verify_layers(const Graph& graph, Violations& violations);
void verify_modules(const Graph& graph, Violations& violations);

}  // namespace headroom::ir
