#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace headroom::ir::torch {

/// A directed edge of a flow network.
struct FlowEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t capacity = 0;
};

/// A flow network; its vertices are the numbers below `vertices`.
struct FlowNetwork {
  /// Capacity of an edge that no minimum cut contains. The sum of four does not overflow.
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max() / 4;

  std::size_t vertices = 0;
  std::size_t source = 0;
  std::size_t sink = 0;
  std::vector<FlowEdge> edges;
};

/// Whether each vertex is on the sink's side of the minimum cut that is nearest to the sink: the
/// residual network of a maximum flow has a path from the vertex to the sink. Every maximum flow
/// gives the same side.
///
/// Source: networkx/algorithms/flow/maxflow.py, minimum_cut, which PyTorch's partitioner calls. The
///         maximum flow is Boost.Graph's.
/// Errors: none. Requires a bounded edge on every path from source to sink, and no edge from a
///         vertex to itself.
[[nodiscard]] std::vector<bool> sink_side(const FlowNetwork& network);

}  // namespace headroom::ir::torch
