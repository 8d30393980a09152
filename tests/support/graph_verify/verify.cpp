#include "tests/support/graph_verify/verify.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tests/support/graph_verify/verify_parts.h"

namespace headroom::ir {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

/// The producer and the readers of each tensor.
struct Uses {
  std::vector<std::size_t> producer;  ///< Operator, or kNone.
  std::vector<bool> read;
};

/// `Graph::add_op` has checked inputs and outputs.
bool parameters_known(const Graph& graph, const Op& op) {
  return std::all_of(op.parameters.begin(), op.parameters.end(),
                     [&](TensorId id) { return index_of(id) < graph.tensor_count(); });
}

Uses find_uses(const Graph& graph) {
  Uses uses{.producer = std::vector<std::size_t>(graph.tensor_count(), kNone),
            .read = std::vector<bool>(graph.tensor_count(), false)};
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(i)});
    if (!parameters_known(graph, op)) {
      continue;  // Reported with the operator.
    }
    for (const TensorId output : op.outputs) {
      uses.producer[index_of(output)] = i;
    }
    for (const TensorId input : op.inputs) {
      uses.read[index_of(input)] = true;
    }
    for (const TensorId parameter : op.parameters) {
      uses.read[index_of(parameter)] = true;
    }
  }
  return uses;
}

bool is_loss(const Graph& graph, const Uses& uses, std::size_t tensor) {
  const std::size_t producer = uses.producer[tensor];
  return producer != kNone && is_loss(graph.op(NodeId{static_cast<std::uint32_t>(producer)}).kind);
}

void verify_activation(const Graph& graph, const Uses& uses, TensorId id, Violations& violations) {
  const std::size_t producer = uses.producer[index_of(id)];
  if (producer == kNone) {
    violations.of_tensor(id, "no operator produces this activation");
    return;
  }
  if (!uses.read[index_of(id)] && !is_loss(graph, uses, index_of(id))) {
    violations.of_tensor(id, "nobody reads this activation, and it is not the loss");
  }
  if (graph.tensor(id).layer != graph.op(NodeId{static_cast<std::uint32_t>(producer)}).layer) {
    violations.of_tensor(id, "names another layer than its producer's");
  }
}

void verify_tensors(const Graph& graph, const Uses& uses, Violations& violations) {
  for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
    const TensorId id{static_cast<std::uint32_t>(i)};
    const TensorInfo& info = graph.tensor(id);
    if (std::any_of(info.dims.begin(), info.dims.end(), [](std::int64_t dim) { return dim < 1; })) {
      violations.of_tensor(id, "has an extent below 1");
    }
    switch (info.kind) {
      case ValueKind::kActivation:
        verify_activation(graph, uses, id, violations);
        break;
      case ValueKind::kInput:
        if (!uses.read[i]) {
          violations.of_tensor(id, "nobody reads this input");
        }
        break;
      case ValueKind::kParameter:
        if (!uses.read[i] && !info.unused) {
          violations.of_tensor(id, "no operator uses this parameter");
        }
        if (uses.read[i] && info.unused) {
          violations.of_tensor(id, "is registered as unused but is used");
        }
        break;
    }
  }
}

void verify_parameter_names(const Graph& graph, Violations& violations) {
  std::vector<std::pair<std::string_view, TensorId>> names;
  for (const TensorId id : graph.parameters()) {
    names.emplace_back(graph.tensor(id).name, id);
  }
  std::sort(names.begin(), names.end());
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (names[i].first == names[i - 1].first) {
      violations.of_tensor(names[i].second, "has the name of another parameter");
    }
  }
}

void verify_kinds(const Graph& graph, NodeId id, const Op& op, Violations& violations) {
  for (const TensorId input : op.inputs) {
    if (graph.tensor(input).kind == ValueKind::kParameter) {
      violations.of_op(id, "reads a parameter as an input");
    }
  }
  for (const TensorId output : op.outputs) {
    if (graph.tensor(output).kind != ValueKind::kActivation) {
      violations.of_op(id, "produces something that is not an activation");
    }
  }
  for (const TensorId parameter : op.parameters) {
    const TensorInfo& info = graph.tensor(parameter);
    if (info.kind != ValueKind::kParameter) {
      violations.of_op(id, "names something as parameter that is none");
    } else if (info.layer != op.layer && op.kind != OpKind::kAttention) {
      violations.of_op(id, "uses the parameter " + info.name + " of another layer");
    }
  }
}

void verify_ops(const Graph& graph, const Uses& uses, Violations& violations) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const NodeId id{static_cast<std::uint32_t>(i)};
    const Op& op = graph.op(id);
    if (!parameters_known(graph, op)) {
      violations.of_op(id, "names a parameter that does not exist");
      continue;
    }
    verify_kinds(graph, id, op, violations);
    for (const TensorId input : op.inputs) {
      const std::size_t producer = uses.producer[index_of(input)];
      if (producer != kNone && producer >= i) {
        violations.of_op(id, "reads what is produced only by operator " + std::to_string(producer));
      }
    }
    if (const auto fault = count_fault(op)) {
      violations.of_op(id, *fault);
    } else if (const auto misfit = shape_fault(graph, op)) {
      violations.of_op(id, *misfit);
    }
    if (!(op.probability >= 0 && op.probability < 1)) {
      violations.of_op(id, "has a dropout probability outside [0, 1)");
    }
  }
}

}  // namespace

void Violations::of_op(NodeId id, std::string_view what) {
  const Op& op = graph_.op(id);
  std::string text = "operator " + std::to_string(index_of(id)) + " (";
  text += name_of(op.kind);
  if (op.role != OpRole::kNone) {
    text += ", role ";
    text += name_of(op.role);
  }
  if (op.layer >= 0) {
    text += ", layer " + std::to_string(op.layer);
  }
  text += "): ";
  text += what;
  texts_.push_back(std::move(text));
}

void Violations::of_tensor(TensorId id, std::string_view what) {
  std::string text = "tensor " + std::to_string(index_of(id)) + " (" + graph_.tensor(id).name;
  text += "): ";
  text += what;
  texts_.push_back(std::move(text));
}

void Violations::of_layer(const LayerRange& range, std::string_view what) {
  std::string text = "layer " + std::to_string(range.layer) + ": ";
  text += what;
  texts_.push_back(std::move(text));
}

std::vector<std::string> verify(const Graph& graph) {
  Violations violations(graph);
  const Uses uses = find_uses(graph);
  verify_tensors(graph, uses, violations);
  verify_parameter_names(graph, violations);
  verify_ops(graph, uses, violations);
  verify_layers(graph, violations);
  verify_modules(graph, violations);
  return violations.take();
}

}  // namespace headroom::ir
