#pragma once

#include <cstdint>
#include <string>

#include "model_ir/graph/graph.h"

namespace headroom::ir {

/// Which layers a drawing shows.
enum class DotLayers : std::uint8_t {
  kDistinct,  ///< The first of each run of layers that have the same operators and shapes.
  kAll,
};

struct DotOptions {
  DotLayers layers = DotLayers::kDistinct;
};

/// The graph as Graphviz text, for people: a box per operator with its parameters, an edge per
/// tensor with its shape, a cluster per layer and, inside it, one per module.
///
/// Model:   with `kDistinct`, the cluster of the first layer of a run says which layers it
///          represents, and edges from the run's last layer leave from it.
/// Ignores: values that enter the graph from outside have no box; their edge starts at a point.
[[nodiscard]] std::string to_dot(const Graph& graph, const DotOptions& options = {});

}  // namespace headroom::ir
