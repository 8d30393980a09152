#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace headroom::ir::torch {

/// Maximum flow through a small network.
///
/// Model:  Dinic's algorithm: shortest augmenting paths, a level at a time; O(V^2 E).
/// Source: Dinitz 1970, Soviet Math. Doklady 11:1277-1280. networkx, which PyTorch's partitioner
///         calls, finds another maximum flow, but the side of the sink that `reaches_sink` gives is
///         the same for all of them.
class MaxFlow {
 public:
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max() / 4;

  explicit MaxFlow(std::size_t vertices) : edges_(vertices) {}

  void add(std::size_t from, std::size_t to, std::int64_t capacity);
  /// Vertices from which the sink can be reached behind a maximum flow: the smallest of the sink's
  /// sides of all minimum cuts. Requires a bounded cut.
  [[nodiscard]] std::vector<bool> reaches_sink(std::size_t source, std::size_t sink);

 private:
  struct Edge {
    std::size_t to;
    std::int64_t room;
    std::size_t back;  ///< Its reverse among the edges of `to`.
  };

  [[nodiscard]] bool find_levels(std::size_t source, std::size_t sink);
  std::int64_t push(std::size_t from, std::size_t sink, std::int64_t most);

  std::vector<std::vector<Edge>> edges_;
  std::vector<std::size_t> levels_;
  std::vector<std::size_t> next_;  ///< The edge of each vertex that is tried next.
};

}  // namespace headroom::ir::torch
