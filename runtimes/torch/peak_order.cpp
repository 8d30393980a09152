#include "runtimes/torch/peak_order.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>

namespace headroom::ir::torch {
namespace {

using Order = std::vector<std::size_t>;
constexpr std::size_t kNoNode = std::numeric_limits<std::size_t>::max();

void add_once(Order& list, std::size_t item) {
  if (std::ranges::find(list, item) == list.end()) {
    list.push_back(item);
  }
}

/// An edge leads from a node to one that must run before it.
using Waits = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

/// Depth-first order from node 0, along the edges of each node in the order in which they were
/// added.
Order each_behind_its_waits(const Waits& waits) {
  Order order;
  boost::topological_sort(waits, std::back_inserter(order));
  return order;
}

/// Nodes sorted by name at first; every other order is derived from that one.
class Scheduler {
 public:
  Scheduler(std::span<const ScheduledNode> nodes, std::span<const ScheduledBuffer> buffers)
      : nodes_(nodes), buffers_(buffers) {
    maker_.assign(buffers.size(), kNoNode);
    readers_.resize(buffers.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::size_t buffer : nodes[i].makes) {
        maker_[buffer] = i;
      }
    }
    rank_.assign(nodes.size(), 0);
    const Order first = by_name();
    for (std::size_t i = 0; i < first.size(); ++i) {
      rank_[first[i]] = i;
    }
    by_rank_ = first;
    connect();
  }

  [[nodiscard]] Order best() const {
    Order best = by_rank_;
    std::int64_t lowest = peak(best);
    for (Order other : {least_memory_first(), breadth_first(), depth_first()}) {
      if (const std::int64_t height = peak(other); height < lowest) {
        lowest = height;
        best = std::move(other);
      }
    }
    return best;
  }

 private:
  [[nodiscard]] Order by_name() const;
  void connect();
  [[nodiscard]] std::int64_t peak(const Order& order) const;
  [[nodiscard]] Order least_memory_first() const;
  [[nodiscard]] Order breadth_first() const;
  [[nodiscard]] Order depth_first() const;
  [[nodiscard]] std::int64_t size(std::size_t node) const;
  [[nodiscard]] Order left_before() const;

  std::span<const ScheduledNode> nodes_;
  std::span<const ScheduledBuffer> buffers_;
  Order maker_;                 ///< Of each buffer.
  std::vector<Order> readers_;  ///< Of each buffer.
  std::vector<Order> before_;   ///< Nodes that must run before a node,
  std::vector<Order> behind_;   ///< and nodes that wait for it.
  Order rank_;                  ///< Of each node in the first order.
  Order by_rank_;
};

Order Scheduler::by_name() const {
  Waits waits(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Order reads = nodes_[i].reads;
    std::ranges::sort(reads, {},
                      [&](std::size_t buffer) { return std::to_string(buffers_[buffer].number); });
    for (const std::size_t buffer : reads) {
      if (maker_[buffer] != kNoNode) {
        boost::add_edge(i, maker_[buffer], waits);
      }
    }
  }
  return each_behind_its_waits(waits);
}

void Scheduler::connect() {
  before_.resize(nodes_.size());
  behind_.resize(nodes_.size());
  for (const std::size_t node : by_rank_) {
    for (const std::size_t buffer : nodes_[node].reads) {
      add_once(readers_[buffer], node);
      if (maker_[buffer] != kNoNode) {
        add_once(before_[node], maker_[buffer]);
        add_once(behind_[maker_[buffer]], node);
      }
    }
  }
}

std::int64_t Scheduler::size(std::size_t node) const {
  std::int64_t bytes = 0;
  for (const std::size_t buffer : nodes_[node].makes) {
    bytes += buffers_[buffer].made;
  }
  return bytes;
}

/// estimate_peak_memory
std::int64_t Scheduler::peak(const Order& order) const {
  Order step(nodes_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    step[order[i]] = i;
  }
  std::vector<std::int64_t> change(order.size() + 1, 0);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const ScheduledBuffer& buffer = buffers_[i];
    if (!buffer.is_input && maker_[i] == kNoNode) {
      continue;
    }
    const std::size_t start = buffer.is_input ? 0 : step[maker_[i]];
    std::size_t last = start;
    for (const std::size_t reader : readers_[i]) {
      last = std::max(last, step[reader]);
    }
    change[start] += buffer.made;
    if (!buffer.is_output) {
      change[last + 1] -= buffer.freed;
    }
  }
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (const std::int64_t each : change) {
    now += each;
    most = std::max(most, now);
  }
  return most;
}

/// For each node, how many nodes it waits for.
Order Scheduler::left_before() const {
  Order left;
  for (const Order& nodes : before_) {
    left.push_back(nodes.size());
  }
  return left;
}

/// topological_sort_lpmf
Order Scheduler::least_memory_first() const {
  Order left = left_before();
  Order open;  // For each buffer: remaining readers, including the function's caller.
  std::int64_t alive = 0;
  std::int64_t results = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    open.push_back(readers_[i].size() + (buffers_[i].is_output ? 1 : 0));
    alive += buffers_[i].is_input ? buffers_[i].freed : 0;
    results += buffers_[i].is_output ? buffers_[i].freed : 0;
  }
  std::int64_t most = std::max(alive, results);
  std::vector<std::int64_t> frees(nodes_.size(), 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t buffer : nodes_[i].reads) {
      frees[i] += open[buffer] == 1 ? buffers_[buffer].freed : 0;
    }
    for (const std::size_t buffer : nodes_[i].makes) {
      frees[i] += open[buffer] == 0 ? buffers_[buffer].freed : 0;
    }
  }
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (left[i] == 0) {
      ready.insert(i);
    }
  }
  Order order;
  while (!ready.empty()) {
    const auto key = [&](std::size_t node) {
      const std::int64_t takes = size(node);
      return std::tuple(takes > most - alive ? takes : 0, takes - frees[node], rank_[node]);
    };
    const std::size_t node = *std::ranges::min_element(ready, {}, key);
    ready.erase(node);
    order.push_back(node);
    alive += size(node);
    most = std::max(most, alive);
    alive -= frees[node];
    for (const std::size_t reader : behind_[node]) {
      if (--left[reader] == 0) {
        ready.insert(reader);
      }
    }
    for (const std::size_t buffer : nodes_[node].reads) {
      if (--open[buffer] == 1) {
        for (const std::size_t reader : readers_[buffer]) {
          frees[reader] += buffers_[buffer].freed;
        }
      }
    }
  }
  return order;
}

/// topological_sort_bfs
Order Scheduler::breadth_first() const {
  using Entry = std::tuple<Order, std::size_t, std::size_t>;  // When what it reads ran, rank, node.
  Order left = left_before();
  Order ran(nodes_.size(), kNoNode);
  std::set<Entry> ready;
  const auto enter = [&](std::size_t node) {
    Order times;
    for (const std::size_t each : before_[node]) {
      times.push_back(ran[each]);
    }
    std::ranges::sort(times);
    ready.insert({std::move(times), rank_[node], node});
  };
  for (const std::size_t node : by_rank_) {
    if (left[node] == 0) {
      enter(node);
    }
  }
  Order order;
  while (!ready.empty()) {
    const std::size_t node = std::get<2>(*ready.begin());
    ready.erase(ready.begin());
    ran[node] = order.size();
    order.push_back(node);
    for (const std::size_t reader : behind_[node]) {
      if (--left[reader] == 0) {
        enter(reader);
      }
    }
  }
  return order;
}

/// topological_sort_dfs: nodes after those that they wait for, smallest first.
Order Scheduler::depth_first() const {
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    bytes.push_back(size(i));
    Order counted;
    for (const std::size_t buffer : nodes_[i].reads) {
      if (std::ranges::find(counted, buffer) == counted.end()) {
        counted.push_back(buffer);
        bytes[i] += buffers_[buffer].freed;
      }
    }
  }
  Order nodes = by_rank_;
  std::ranges::sort(nodes, {},
                    [&](std::size_t node) { return std::pair(bytes[node], rank_[node]); });
  Order place(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    place[nodes[i]] = i;
  }
  Waits waits(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Order before = before_[nodes[i]];
    std::ranges::sort(before, {}, [&](std::size_t node) { return place[node]; });
    for (const std::size_t node : before) {
      boost::add_edge(i, place[node], waits);
    }
  }
  Order order = each_behind_its_waits(waits);
  std::ranges::for_each(order, [&](std::size_t& node) { node = nodes[node]; });
  return order;
}

}  // namespace

std::vector<std::size_t> peak_order(std::span<const ScheduledNode> nodes,
                                    std::span<const ScheduledBuffer> buffers) {
  return Scheduler(nodes, buffers).best();
}

}  // namespace headroom::ir::torch
