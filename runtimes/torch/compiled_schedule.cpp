// The order in which Inductor runs the steps of a function.
#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <boost/graph/adjacency_matrix.hpp>
#include <boost/graph/transitive_closure.hpp>

#include "model_ir/base/check.h"
#include "runtimes/torch/compiled_graph.h"
#include "runtimes/torch/peak_order.h"

namespace headroom::ir::torch {
namespace {

constexpr std::size_t kUnnumbered = std::numeric_limits<std::size_t>::max();

}  // namespace

void CompiledGraph::fuse(std::vector<Id> made, std::size_t sums, Call run) {
  HEADROOM_ASSERT(sums < made.size());
  groups_.push_back({.made = std::move(made), .sums = sums, .run = std::move(run)});
}

/// A kernel does not write over an operand that another part of it reads, unless that part runs
/// earlier. Source: torch/_inductor/scheduler.py, SchedulerNode.decide_inplace_update.
void CompiledGraph::keep_shared_operands(const Group& group) {
  const std::size_t parts = group.made.size();
  const auto reads = [&](std::size_t part, Id buffer) {
    const std::vector<Id>& all = steps_[buffers_[group.made[part]].made_at].reads;
    return std::ranges::find(all, buffer) != all.end();
  };
  // An edge leads from a part to every part that reads its result; after the closure, also to those
  // that read it indirectly.
  boost::adjacency_matrix<boost::directedS> before(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    for (std::size_t j = 0; j < parts; ++j) {
      if (reads(j, group.made[i])) {
        boost::add_edge(i, j, before);
      }
    }
  }
  boost::warshall_transitive_closure(before);
  for (std::size_t i = 0; i < parts; ++i) {
    std::erase_if(buffers_[group.made[i]].over, [&](Id candidate) {
      for (std::size_t j = 0; j < parts; ++j) {
        if (j != i && reads(j, candidate) && !boost::edge(j, i, before).second) {
          return true;
        }
      }
      return false;
    });
  }
}

/// The single step of a group: what it reads from outside and what it makes.
CompiledGraph::Step CompiledGraph::merged(Group& group) {
  keep_shared_operands(group);
  Step step;
  step.number = kUnnumbered;
  step.made = group.made;
  step.run = std::move(group.run);
  step.is_fused = true;
  step.again = true;  // Becomes false if one part does not recompute.
  for (const Id id : group.made) {
    Step& part = steps_[buffers_[id].made_at];
    HEADROOM_ASSERT(part.made.size() == 1 && !part.is_product && !part.run);
    step.number = std::min(step.number, part.number);
    step.again = step.again && part.again;
    std::ranges::copy_if(part.reads, std::back_inserter(step.reads), [&](Id read) {
      return std::ranges::find(group.made, read) == group.made.end();
    });
    part.made.clear();
  }
  for (std::size_t i = group.made.size() - group.sums; i < group.made.size(); ++i) {
    buffers_[group.made[i]].kind = Kind::kMade;
  }
  return step;
}

void CompiledGraph::merge_groups() {
  std::vector<Step> whole;
  for (Group& group : groups_) {
    whole.push_back(merged(group));
  }
  groups_.clear();
  std::erase_if(steps_, [](const Step& step) { return step.made.empty(); });
  std::ranges::move(whole, std::back_inserter(steps_));
  std::ranges::sort(steps_, {}, &Step::number);
  for (Step& step : steps_) {
    std::vector<Id> reads;
    for (const Id read : step.reads) {
      if (std::ranges::find(reads, read) == reads.end()) {
        reads.push_back(read);
      }
    }
    step.reads = std::move(reads);
  }
}

/// A buffer that only its own kernel reads is never written to memory.
void CompiledGraph::find_inside() {
  std::vector<bool> is_read(buffers_.size(), false);
  for (const Step& step : steps_) {
    for (const Id read : step.reads) {
      is_read[read] = true;
    }
  }
  for (const Step& step : steps_) {
    for (const Id id : step.made) {
      Buffer& buffer = buffers_[id];
      buffer.inside = step.is_fused && buffer.kind == Kind::kOwn && !is_read[id] && !buffer.output;
    }
  }
}

/// The steps; after each call, one step per result.
void CompiledGraph::put_in_order() {
  std::vector<ScheduledNode> nodes;
  std::vector<ScheduledBuffer> buffers(buffers_.size());
  std::vector<std::size_t> step_of;  // Step of each node; for a result, the step of its call.
  std::vector<bool> is_item;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    ScheduledNode node;
    std::ranges::copy_if(step.reads, std::back_inserter(node.reads),
                         [&](Id read) { return buffers_[read].kind != Kind::kArgument; });
    const bool items = has_items(step);
    std::int64_t bytes = 0;
    for (std::size_t at = 0; at < step.made.size(); ++at) {
      const Id id = step.made[at];
      const std::int64_t size = buffers_[id].estimated();
      bytes += size;
      buffers[id] = {.made = items ? 0 : size,
                     .freed = size,
                     .number = step.number + at + (items ? 1 : 0),
                     .is_output = buffers_[id].output};
    }
    node.makes = items ? std::vector<Id>{buffers.size()} : step.made;
    nodes.push_back(node);
    step_of.push_back(i);
    is_item.push_back(false);
    if (!items) {
      continue;
    }
    for (const Id id : step.made) {
      nodes.push_back({.reads = node.makes, .makes = {id}});
      step_of.push_back(i);
      is_item.push_back(true);
    }
    buffers.push_back({.made = bytes, .freed = 0, .number = step.number});
  }
  for (Id id = 0; id < buffers_.size(); ++id) {
    if (buffers_[id].kind == Kind::kDonated) {
      const std::int64_t size = buffers_[id].bytes();
      buffers[id] = {.made = size, .freed = size, .number = kUnnumbered, .is_input = true};
    }
  }
  std::vector<Step> ordered;
  std::vector<std::vector<Id>> results(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    results[i] = has_items(steps_[i]) ? steps_[i].made : std::vector<Id>{};
  }
  for (const std::size_t node : peak_order(nodes, buffers)) {
    const std::size_t step = step_of[node];
    for (const Id id : is_item[node] ? results[step] : std::vector<Id>{}) {
      buffers_[id].held = ordered.size();
    }
    Step next;
    next.is_item = true;
    if (!is_item[node]) {
      next = std::move(steps_[step]);
      for (const Id id : next.made) {
        buffers_[id].made_at = ordered.size();
      }
    }
    ordered.push_back(std::move(next));
  }
  steps_ = std::move(ordered);
}

void CompiledGraph::schedule() {
  merge_groups();
  find_inside();
  put_in_order();
}

}  // namespace headroom::ir::torch
