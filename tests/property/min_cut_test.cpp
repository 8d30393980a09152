#include "runtimes/torch/min_cut.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/random.h"

namespace headroom::ir::torch {
namespace {

FlowNetwork random_network(test::Random& random) {
  FlowNetwork network{.vertices = static_cast<std::size_t>(random.between(2, 8)), .edges = {}};
  const auto last = static_cast<std::int64_t>(network.vertices) - 1;
  network.source = static_cast<std::size_t>(random.between(0, last));
  network.sink =
      (network.source + static_cast<std::size_t>(random.between(1, last))) % network.vertices;
  for (std::int64_t left = random.between(0, 20); left > 0; --left) {
    const auto from = static_cast<std::size_t>(random.between(0, last));
    const auto to = static_cast<std::size_t>(random.between(0, last));
    if (from == to) {
      continue;
    }
    const bool ends = from == network.source && to == network.sink;
    const std::int64_t capacity = random.chance(1, 6) && !ends ? 1000 : random.between(0, 4);
    network.edges.push_back({from, to, capacity});
  }
  return network;
}

std::int64_t capacity_of_cut(const FlowNetwork& network, const std::vector<bool>& sink_side) {
  std::int64_t capacity = 0;
  for (const FlowEdge& edge : network.edges) {
    capacity += !sink_side[edge.from] && sink_side[edge.to] ? edge.capacity : 0;
  }
  return capacity;
}

/// Tries every cut. What all minimum cuts have on the sink's side is itself the side of one.
std::vector<bool> brute_force(const FlowNetwork& network) {
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
  std::vector<bool> common;
  for (std::uint32_t set = 0; set < 1U << network.vertices; ++set) {
    std::vector<bool> side(network.vertices);
    for (std::size_t i = 0; i < side.size(); ++i) {
      side[i] = (set >> i & 1U) != 0;
    }
    if (side[network.source] || !side[network.sink]) {
      continue;
    }
    const std::int64_t capacity = capacity_of_cut(network, side);
    if (capacity < lowest) {
      lowest = capacity;
      common = side;
    } else if (capacity == lowest) {
      for (std::size_t i = 0; i < side.size(); ++i) {
        common[i] = common[i] && side[i];
      }
    }
  }
  return common;
}

}  // namespace

TEST_CASE("minimum cut: the sink's side is in every minimum cut's") {
  constexpr std::int64_t kNetworks = test::kSanitized ? 300 : 3000;
  test::Random random = test::seeded_random();
  CAPTURE(random.seed());
  for (std::int64_t i = 0; i < kNetworks; ++i) {
    CAPTURE(i);
    const FlowNetwork network = random_network(random);
    CHECK(sink_side(network) == brute_force(network));
  }
}

}  // namespace headroom::ir::torch
