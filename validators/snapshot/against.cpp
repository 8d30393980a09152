#include "validators/snapshot/against.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headroom::check {
namespace {

/// Blocks of one size, by use and name in a stable order.
using OfSize = std::map<std::pair<BlockUse, std::string>, std::size_t>;
using BySize = std::map<Bytes, OfSize>;

std::string site_name(const ir::RankProgram& program, std::uint32_t site) {
  if (site >= program.sites.size() || program.sites[site].operation >= program.operations.size()) {
    return {};
  }
  const ir::Site& at = program.sites[site];
  const std::string layer = at.layer >= 0 ? "layer " + std::to_string(at.layer) + ": " : "";
  return layer + program.operations[at.operation] + (at.backward ? " backward" : "");
}

BySize predicted_sizes(const cost::StepEstimate& estimate, std::size_t event) {
  const ir::RankProgram& program = estimate.program;
  std::vector<Bytes> requested(program.blocks);
  for (const ir::Event& entry : program.events) {
    if (entry.kind == ir::EventKind::kAllocate) {
      requested[entry.block] = Bytes{entry.bytes};
    }
  }
  BySize sizes;
  for (const cost::LiveBlock& block : cost::live_blocks(program, estimate.timeline, event)) {
    ++sizes[requested[block.block]][{use_of(block.role), site_name(program, block.site)}];
  }
  return sizes;
}

BySize measured_sizes(const DeviceSummary& measured, const StackSorter& sorter) {
  BySize sizes;
  for (const BlockGroup& group : measured.groups) {
    sizes[group.requested][{group.use, sorter.line_of(group.stack)}] += group.count;
  }
  return sizes;
}

std::size_t count_of(const OfSize& blocks) {
  std::size_t count = 0;
  for (const auto& [key, of_key] : blocks) {
    count += of_key;
  }
  return count;
}

/// What `blocks` has beyond the `known` blocks of the other side. Blocks of a use that the other
/// side has as well are matched first.
void add_rest(const OfSize& all, Bytes size, const OfSize& other,
              std::vector<SizeDifference>& rest) {
  OfSize blocks = all;
  std::map<BlockUse, std::size_t> by_use;
  for (const auto& [key, count] : other) {
    by_use[key.first] += count;
  }
  std::size_t matched = std::min(count_of(blocks), count_of(other));
  for (const bool same_use : {true, false}) {
    for (auto& [key, count] : blocks) {
      const std::size_t room = same_use ? std::min(by_use[key.first], matched) : matched;
      const std::size_t taken = std::min(count, room);
      count -= taken;
      matched -= taken;
      if (same_use) {
        by_use[key.first] -= taken;
      }
    }
  }
  for (const auto& [key, count] : blocks) {
    if (count > 0) {
      rest.push_back({.requested = size, .count = count, .use = key.first, .name = key.second});
    }
  }
}

void sort_by_sum(std::vector<SizeDifference>& rest) {
  std::ranges::stable_sort(rest, std::ranges::greater{}, [](const SizeDifference& difference) {
    return static_cast<std::int64_t>(difference.count) * difference.requested;
  });
}

OfSize of_size(const BySize& sizes, Bytes size) {
  const auto found = sizes.find(size);
  return found == sizes.end() ? OfSize{} : found->second;
}

}  // namespace

BlockUse use_of(ir::TensorRole role) {
  switch (role) {
    case ir::TensorRole::kParameter:
    case ir::TensorRole::kBuffer:
      return BlockUse::kParameters;
    case ir::TensorRole::kGradient:
      return BlockUse::kGradients;
    case ir::TensorRole::kOptimizerState:
    case ir::TensorRole::kMasterParameter:
      return BlockUse::kOptimizerStates;
    case ir::TensorRole::kActivation:
    case ir::TensorRole::kLogits:
    case ir::TensorRole::kInput:
      return BlockUse::kActivations;
    case ir::TensorRole::kTemporary:
      return BlockUse::kTemporaries;
    case ir::TensorRole::kCommunication:
      return BlockUse::kCommunication;
    case ir::TensorRole::kWorkspace:
      return BlockUse::kWorkspaces;
  }
  return BlockUse::kOther;
}

PeakComparison compare_peaks(const cost::StepEstimate& estimate, const DeviceSummary& measured,
                             const StackSorter& sorter) {
  PeakComparison comparison{.predicted = estimate.peak_allocated,
                            .measured = measured.history.peak_allocated.bytes,
                            .predicted_moment = estimate.peak_moment,
                            .predicted_by_use = {},
                            .measured_by_use = measured.at_peak,
                            .matched = 0,
                            .matched_bytes = {},
                            .only_predicted = {},
                            .only_measured = {}};
  for (std::size_t role = 0; role < estimate.peak_by_role.size(); ++role) {
    const BlockUse use = use_of(static_cast<ir::TensorRole>(role));
    comparison.predicted_by_use.at(static_cast<std::size_t>(use)) += estimate.peak_by_role.at(role);
  }
  const cost::MemoryTimeline& timeline = estimate.timeline;
  if (timeline.phases.empty()) {
    return comparison;
  }
  const BySize predicted =
      predicted_sizes(estimate, timeline.phases[timeline.peak_phase].peak_event);
  const BySize found = measured_sizes(measured, sorter);
  for (const auto& [size, blocks] : predicted) {
    const OfSize other = of_size(found, size);
    const std::size_t both = std::min(count_of(blocks), count_of(other));
    comparison.matched += both;
    comparison.matched_bytes += static_cast<std::int64_t>(both) * size;
    add_rest(blocks, size, other, comparison.only_predicted);
  }
  for (const auto& [size, blocks] : found) {
    add_rest(blocks, size, of_size(predicted, size), comparison.only_measured);
  }
  sort_by_sum(comparison.only_predicted);
  sort_by_sum(comparison.only_measured);
  return comparison;
}

}  // namespace headroom::check
