#include "runtimes/torch/max_flow.h"

#include <algorithm>

#include "model_ir/base/check.h"

namespace headroom::ir::torch {

namespace {
constexpr std::size_t kNoLevel = std::numeric_limits<std::size_t>::max();
}  // namespace

void MaxFlow::add(std::size_t from, std::size_t to, std::int64_t capacity) {
  edges_[from].push_back({to, capacity, edges_[to].size()});
  edges_[to].push_back({from, 0, edges_[from].size() - 1});
}

bool MaxFlow::find_levels(std::size_t source, std::size_t sink) {
  levels_.assign(edges_.size(), kNoLevel);
  levels_[source] = 0;
  std::vector<std::size_t> found{source};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Edge& edge : edges_[found[i]]) {
      if (edge.room > 0 && levels_[edge.to] == kNoLevel) {
        levels_[edge.to] = levels_[found[i]] + 1;
        found.push_back(edge.to);
      }
    }
  }
  return levels_[sink] != kNoLevel;
}

std::int64_t MaxFlow::push(std::size_t from, std::size_t sink, std::int64_t most) {
  if (from == sink) {
    return most;
  }
  for (std::size_t& at = next_[from]; at < edges_[from].size(); ++at) {
    const Edge edge = edges_[from][at];
    if (edge.room <= 0 || levels_[edge.to] != levels_[from] + 1) {
      continue;
    }
    const std::int64_t pushed = push(edge.to, sink, std::min(most, edge.room));
    if (pushed > 0) {
      edges_[from][at].room -= pushed;
      edges_[edge.to][edge.back].room += pushed;
      return pushed;
    }
  }
  return 0;
}

std::vector<bool> MaxFlow::reaches_sink(std::size_t source, std::size_t sink) {
  while (find_levels(source, sink)) {
    next_.assign(edges_.size(), 0);
    while (const std::int64_t pushed = push(source, sink, kUnbounded)) {
      HEADROOM_ASSERT(pushed < kUnbounded);
    }
  }
  std::vector<bool> reaches(edges_.size(), false);
  reaches[sink] = true;
  std::vector<std::size_t> found{sink};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Edge& edge : edges_[found[i]]) {
      const bool room = edges_[edge.to][edge.back].room > 0;
      if (room && !reaches[edge.to]) {
        reaches[edge.to] = true;
        found.push_back(edge.to);
      }
    }
  }
  return reaches;
}

}  // namespace headroom::ir::torch
