#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/graph_verify/verify_parts.h"

namespace headroom::ir {
namespace {

constexpr std::size_t kOutside = SIZE_MAX;

/// For each tensor, the entry of `layers()` in which it is produced.
std::vector<std::size_t> producing_layers(const Graph& graph) {
  std::vector<std::size_t> layers(graph.tensor_count(), kOutside);
  for (std::size_t entry = 0; entry < graph.layers().size(); ++entry) {
    const LayerRange& range = graph.layers()[entry];
    for (std::size_t i = index_of(range.first); i <= index_of(range.last) && i < graph.op_count();
         ++i) {
      for (const TensorId output : graph.op(NodeId{static_cast<std::uint32_t>(i)}).outputs) {
        layers[index_of(output)] = entry;
      }
    }
  }
  return layers;
}

void verify_order(const Graph& graph, Violations& violations) {
  std::int32_t expected = 0;
  std::size_t next = 0;
  for (const LayerRange& range : graph.layers()) {
    if (range.layer != expected) {
      violations.of_layer(range, "expected layer " + std::to_string(expected) + " here");
    }
    if (index_of(range.first) < next) {
      violations.of_layer(range, "overlaps the layer before it");
    }
    for (std::size_t i = index_of(range.first); i <= index_of(range.last); ++i) {
      if (i >= graph.op_count() ||
          graph.op(NodeId{static_cast<std::uint32_t>(i)}).layer != range.layer) {
        violations.of_layer(range, "has no operators, or some of another layer among its own");
        break;
      }
    }
    next = index_of(range.last) + 1;
    expected = range.layer + 1;
  }
}

/// Whether an operator lies in the range of its layer number.
void verify_membership(const Graph& graph, Violations& violations) {
  std::vector<bool> inside(graph.op_count(), false);
  for (const LayerRange& range : graph.layers()) {
    for (std::size_t i = index_of(range.first); i <= index_of(range.last) && i < inside.size();
         ++i) {
      inside[i] = true;
    }
  }
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const NodeId id{static_cast<std::uint32_t>(i)};
    if (!inside[i] && graph.op(id).layer >= 0) {
      violations.of_op(id, "claims a layer but stands outside it");
    }
  }
}

void verify_ends(const Graph& graph, const std::vector<std::size_t>& produced,
                 Violations& violations) {
  for (std::size_t entry = 0; entry < graph.layers().size(); ++entry) {
    const LayerRange& range = graph.layers()[entry];
    const auto makes = [&](TensorId id) {
      return index_of(id) < produced.size() && produced[index_of(id)] == entry;
    };
    if (!makes(range.output)) {
      violations.of_layer(range, "does not produce its output");
    }
    if (makes(range.input)) {
      violations.of_layer(range, "produces its own input");
    }
  }
}

/// Values of a layer other than its output stay inside it.
void verify_nesting(const Graph& graph, const std::vector<std::size_t>& produced,
                    Violations& violations) {
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const NodeId id{static_cast<std::uint32_t>(i)};
    for (const TensorId input : graph.op(id).inputs) {
      const std::size_t entry = produced[index_of(input)];
      if (entry == kOutside) {
        continue;
      }
      const LayerRange& range = graph.layers()[entry];
      const bool within = index_of(range.first) <= i && i <= index_of(range.last);
      if (!within && input != range.output) {
        violations.of_op(id, "reads a value inside layer " + std::to_string(range.layer) +
                                 " that is not its output");
      }
    }
  }
}

constexpr std::size_t kModuleCount = 5;

bool in_layers_only(Module module) {
  return module == Module::kAttention || module == Module::kMlp ||
         module == Module::kCrossAttention;
}

}  // namespace

void verify_layers(const Graph& graph, Violations& violations) {
  const std::vector<std::size_t> produced = producing_layers(graph);
  verify_order(graph, violations);
  verify_membership(graph, violations);
  verify_ends(graph, produced, violations);
  verify_nesting(graph, produced, violations);
}

void verify_modules(const Graph& graph, Violations& violations) {
  std::array<bool, kModuleCount> seen{};
  std::int32_t layer = -1;
  Module open = Module::kNone;
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    const NodeId id{static_cast<std::uint32_t>(i)};
    const Op& op = graph.op(id);
    if (op.layer != layer) {
      seen.fill(false);
      layer = op.layer;
      open = Module::kNone;
    }
    if (op.module != Module::kNone && op.module != open) {
      bool& before = seen.at(static_cast<std::size_t>(op.module));
      if (before) {
        violations.of_op(id, "stands apart from the other operators of its module");
      }
      before = true;
    }
    open = op.module;
    if (in_layers_only(op.module) && op.layer < 0) {
      violations.of_op(id, "belongs to a module of a layer but stands outside all layers");
    }
    if (op.module == Module::kHead && op.layer >= 0) {
      violations.of_op(id, "belongs to the head but stands in a layer");
    }
  }
}

}  // namespace headroom::ir
