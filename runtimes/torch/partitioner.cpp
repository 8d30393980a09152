#include "runtimes/torch/partitioner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/min_cut.h"

namespace headroom::ir::torch {
namespace {

constexpr std::int64_t kFar = 1'000'000'000;  ///< Distance of nodes that backward does not need.

/// MinCutOptions
struct Bans {
  bool far_apart = true;
  bool materialised = true;
  bool unlisted = true;  ///< Ban what is not in the list; otherwise only expensive operators.
};

bool fuses(JointOp op) {
  return op == JointOp::kPointwise || op == JointOp::kView || op == JointOp::kItem;
}

bool fuse(const JointNode& reader, const JointNode& read) {
  return reader.op == JointOp::kCat || (fuses(read.op) && fuses(reader.op));
}

class Partitioner {
 public:
  explicit Partitioner(std::span<const JointNode> graph) : graph_(graph) {
    find_readers();
    find_forward();
    find_distances();
  }

  [[nodiscard]] std::vector<std::size_t> choose(double budget) const;

 private:
  using Nodes = std::vector<std::size_t>;
  struct Cut {
    Nodes saved;
    Nodes banned;
  };

  void find_readers();
  void find_forward();
  void find_distances();
  [[nodiscard]] std::int64_t bytes_of(const Nodes& nodes) const;
  [[nodiscard]] bool is_materialised_backward(std::size_t node) const;
  [[nodiscard]] bool is_reduction(std::size_t node) const;
  [[nodiscard]] bool is_banned(std::size_t node, const Bans& bans) const;
  [[nodiscard]] std::int64_t weight(std::size_t node) const;
  [[nodiscard]] std::size_t first_unfusible(const Nodes& start, std::size_t limit) const;
  void ban_far_apart(const Nodes& allowed, std::vector<bool>& banned) const;
  [[nodiscard]] Cut cut(const Bans& bans, const Nodes& allowed) const;
  [[nodiscard]] Nodes worth_choosing(const Nodes& banned) const;
  [[nodiscard]] Nodes left_to_run_again(const Nodes& items, double full, double budget) const;

  std::span<const JointNode> graph_;
  std::vector<Nodes> readers_;
  std::vector<bool> forward_;       ///< required_fw_nodes
  std::vector<std::int64_t> far_;   ///< dist_from_bw
  std::vector<std::size_t> order_;  ///< fw_order
};

void Partitioner::find_readers() {
  readers_.resize(graph_.size());
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    for (const std::size_t read : graph_[i].reads) {
      HEADROOM_ASSERT(read < i);
      if (readers_[read].empty() || readers_[read].back() != i) {
        readers_[read].push_back(i);
      }
    }
  }
}

void Partitioner::find_forward() {
  forward_.assign(graph_.size(), false);
  for (std::size_t i = graph_.size(); i-- > 0;) {
    const JointNode& node = graph_[i];
    const bool needed =
        std::ranges::any_of(readers_[i], [&](std::size_t reader) { return forward_[reader]; });
    forward_[i] = node.op == JointOp::kInput || node.is_output || (needed && !node.is_gradient);
  }
  order_.assign(graph_.size(), 0);
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    order_[i] = forward_[i] ? next++ : 0;
  }
}

void Partitioner::find_distances() {
  far_.assign(graph_.size(), 0);
  for (std::size_t i = graph_.size(); i-- > 0;) {
    if (!forward_[i]) {
      continue;
    }
    far_[i] = kFar;
    for (const std::size_t reader : readers_[i]) {
      far_[i] = std::min(far_[i], far_[reader] + 1);
    }
  }
}

std::int64_t Partitioner::bytes_of(const Nodes& nodes) const {
  std::int64_t bytes = 0;
  for (const std::size_t node : nodes) {
    bytes += graph_[node].bytes;
  }
  return bytes;
}

/// Whether backward would have to write it to memory for a reader that does not fuse.
bool Partitioner::is_materialised_backward(std::size_t node) const {
  if (graph_[node].op == JointOp::kView) {
    return false;
  }
  std::set<std::size_t> looks{node};
  while (!looks.empty()) {
    const std::size_t look = *looks.rbegin();
    looks.erase(look);
    for (const std::size_t reader : readers_[look]) {
      if (!forward_[reader] && !fuse(graph_[reader], graph_[look])) {
        return true;
      }
      if (graph_[reader].op == JointOp::kView) {
        looks.insert(reader);
      }
    }
  }
  return false;
}

/// Whether its result is less than a quarter of what it reads.
bool Partitioner::is_reduction(std::size_t node) const {
  constexpr std::int64_t kShare = 4;
  return graph_[node].bytes * kShare < bytes_of(graph_[node].reads);
}

/// should_ban_recomputation
bool Partitioner::is_banned(std::size_t node, const Bans& bans) const {
  const JointNode& each = graph_[node];
  if (each.op == JointOp::kInput) {
    return true;
  }
  if (!forward_[node] || each.op == JointOp::kItem || each.op == JointOp::kView) {
    return false;
  }
  const bool dear = bans.unlisted ? !fuses(each.op) : each.op == JointOp::kIntensive;
  return dear || (bans.materialised && is_materialised_backward(node)) || is_reduction(node);
}

/// Cost of saving it: it grows with the distance from backward, and doubles if nobody else needs it
/// in memory.
std::int64_t Partitioner::weight(std::size_t node) const {
  constexpr double kPerStep = 1.1;
  constexpr std::int64_t kFarthest = 100;
  const JointNode& each = graph_[node];
  if (each.is_tuple) {
    return FlowNetwork::kUnbounded;
  }
  if (each.is_parameter) {
    return 0;
  }
  const std::int64_t steps = std::max<std::int64_t>(std::min(far_[node], kFarthest), 1);
  const double dear =
      static_cast<double>(each.bytes) * std::pow(kPerStep, static_cast<double>(steps));
  // Every edge that can be cut is cheaper than one that cannot.
  const auto cost =
      static_cast<std::int64_t>(std::min(dear, static_cast<double>(FlowNetwork::kUnbounded / 4)));
  const bool is_written =
      each.op == JointOp::kInput || !std::ranges::all_of(readers_[node], [&](std::size_t reader) {
        return fuse(graph_[reader], each);
      });
  return is_written ? cost : 2 * cost;
}

/// The first operator after `start`, up to `limit`, that does not fuse with its operands.
std::size_t Partitioner::first_unfusible(const Nodes& start, std::size_t limit) const {
  using Entry = std::tuple<std::size_t, std::size_t, bool>;  // Order, node, whether it fuses.
  std::set<Entry> entries;
  for (const std::size_t node : start) {
    entries.insert({order_[node], node, true});
  }
  while (!entries.empty()) {
    const auto [order, node, fusible] = *entries.begin();
    entries.erase(entries.begin());
    if (!fusible) {
      return order;
    }
    for (const std::size_t reader : readers_[node]) {
      if (forward_[reader] && order_[reader] <= limit) {
        entries.insert({order_[reader], reader, fuse(graph_[reader], graph_[node])});
      }
    }
  }
  return limit;
}

/// Bans values that are read both close to where they are made and after an operator that does not
/// fuse.
void Partitioner::ban_far_apart(const Nodes& allowed, std::vector<bool>& banned) const {
  for (std::size_t node = 0; node < graph_.size(); ++node) {
    if (!forward_[node]) {
      continue;
    }
    Nodes readers;
    std::ranges::copy_if(readers_[node], std::back_inserter(readers),
                         [&](std::size_t reader) { return forward_[reader]; });
    if (readers.empty()) {
      continue;
    }
    const std::size_t first = first_unfusible(readers, order_[readers.back()]);
    for (const std::size_t reader : readers) {
      const bool may = graph_[reader].op != JointOp::kView &&
                       std::ranges::find(allowed, reader) == allowed.end();
      if (may && order_[reader] > first && fuse(graph_[reader], graph_[node])) {
        banned[reader] = true;
      }
    }
  }
}

/// solve_min_cut; nodes in `allowed` may always be recomputed.
Partitioner::Cut Partitioner::cut(const Bans& bans, const Nodes& allowed) const {
  std::vector<bool> banned(graph_.size(), false);
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    banned[i] = is_banned(i, bans) && std::ranges::find(allowed, i) == allowed.end();
  }
  if (bans.far_apart) {
    ban_far_apart(allowed, banned);
  }
  const std::size_t source = 2 * graph_.size();
  const std::size_t sink = source + 1;
  FlowNetwork network{.vertices = sink + 1, .source = source, .sink = sink, .edges = {}};
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].is_gradient) {
      network.edges.push_back({2 * i, sink, FlowNetwork::kUnbounded});
      continue;
    }
    if (banned[i]) {
      network.edges.push_back({source, 2 * i, FlowNetwork::kUnbounded});
    }
    network.edges.push_back({2 * i, 2 * i + 1, weight(i)});
    for (const std::size_t reader : readers_[i]) {
      network.edges.push_back({2 * i + 1, 2 * reader, FlowNetwork::kUnbounded});
    }
  }
  const std::vector<bool> behind_cut = sink_side(network);
  Cut result;
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (!behind_cut[2 * i] && behind_cut[2 * i + 1]) {
      result.saved.push_back(i);
    }
    if (banned[i]) {
      result.banned.push_back(i);
    }
  }
  return result;
}

/// The candidates of the knapsack: banned, needed by backward, and not an argument. Largest first.
Partitioner::Nodes Partitioner::worth_choosing(const Nodes& banned) const {
  Nodes items;
  std::ranges::copy_if(banned, std::back_inserter(items), [&](std::size_t node) {
    return graph_[node].op != JointOp::kInput && far_[node] < kFar;
  });
  std::ranges::stable_sort(items, [&](std::size_t left, std::size_t right) {
    return graph_[left].bytes > graph_[right].bytes;
  });
  return items;
}

/// dp_knapsack: in ten-thousandths of the budget; run times are summed in fp32. Items that are left
/// out may be recomputed. `full`: the bytes that correspond to a budget of 1.
Partitioner::Nodes Partitioner::left_to_run_again(const Nodes& items, double full,
                                                  double budget) const {
  constexpr double kParts = 10000;
  constexpr double kGiga = 1e9;
  const auto room = static_cast<std::size_t>(std::nearbyint(budget * kParts));
  std::vector<std::vector<float>> best(items.size() + 1, std::vector<float>(room + 1, 0.0F));
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const JointNode& item = graph_[items[i]];
    const double share = static_cast<double>(item.bytes) / kGiga / full;
    sizes.push_back(static_cast<std::size_t>(std::nearbyint(share * kParts)));
    const auto gain = static_cast<float>(item.flops);
    best[i + 1] = best[i];
    for (std::size_t at = sizes[i]; at <= room; ++at) {
      const float with = best[i][at - sizes[i]] + gain;
      best[i + 1][at] = sizes[i] == 0 ? with : std::max(best[i][at], with);
    }
  }
  Nodes again;
  std::size_t at = room;
  for (std::size_t i = items.size(); i-- > 0;) {
    if (best[i + 1][at] != best[i][at]) {
      at -= sizes[i];
    } else {
      again.push_back(items[i]);
    }
  }
  return again;
}

std::vector<std::size_t> Partitioner::choose(double budget) const {
  Nodes arguments;
  for (std::size_t i = 0; i < graph_.size(); ++i) {
    if (graph_[i].op == JointOp::kInput) {
      arguments.push_back(i);
    }
  }
  if (budget <= 0) {
    return arguments;
  }
  Bans bans;
  const Nodes fastest = cut(bans, {}).saved;
  constexpr double kGiga = 1e9;
  const auto size = [&](const Nodes& nodes) {
    return static_cast<double>(bytes_of(nodes)) / kGiga;
  };
  const double least = size(arguments);
  const double full = size(fastest) - least;
  if (budget >= 1 || full <= 0) {
    return fastest;
  }
  const auto holds = [&](const Nodes& nodes) { return (size(nodes) - least) / full < budget; };
  bans.far_apart = false;
  bans.materialised = false;
  if (Nodes saved = cut(bans, {}).saved; holds(saved)) {
    return saved;
  }
  bans.unlisted = false;
  Cut least_banned = cut(bans, {});
  if (holds(least_banned.saved)) {
    return std::move(least_banned.saved);
  }
  const Nodes items = worth_choosing(least_banned.banned);
  return items.empty() ? arguments : cut(bans, left_to_run_again(items, full, budget)).saved;
}

}  // namespace

std::vector<std::size_t> saved_nodes(std::span<const JointNode> graph, double budget) {
  HEADROOM_ASSERT(budget >= 0 && budget <= 1);
  return Partitioner(graph).choose(budget);
}

}  // namespace headroom::ir::torch
