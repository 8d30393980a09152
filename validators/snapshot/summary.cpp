#include "validators/snapshot/summary.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace headroom::check {
namespace {

/// Blocks that are alive at the peak, joined by use, size and line.
std::vector<BlockGroup> groups_at(const DeviceHistory& history, const StackSorter& sorter,
                                  std::size_t event, UseBytes& by_use) {
  std::map<StackId, std::string> lines;
  std::map<std::tuple<BlockUse, Bytes, std::string>, BlockGroup> groups;
  for (const BlockLife& life : history.lives) {
    if (!life.lives_after(event)) {
      continue;
    }
    const BlockUse use = sorter.use_of(life);
    by_use.at(static_cast<std::size_t>(use)) += life.size;
    auto line = lines.find(life.stack);
    if (line == lines.end()) {
      line = lines.emplace(life.stack, sorter.line_of(life.stack)).first;
    }
    BlockGroup& group = groups[{use, life.requested, line->second}];
    if (group.count == 0) {
      group = {
          .use = use, .requested = life.requested, .bytes = {}, .count = 0, .stack = life.stack};
    }
    group.bytes += life.size;
    ++group.count;
  }
  std::vector<BlockGroup> sorted;
  sorted.reserve(groups.size());
  for (const auto& [key, group] : groups) {
    sorted.push_back(group);
  }
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &BlockGroup::bytes);
  return sorted;
}

SegmentUse use_of_segment(const SnapshotSegment& segment, FragmentationUse& all) {
  SegmentUse use{.address = segment.address,
                 .size = segment.size,
                 .active = {},
                 .largest_free = {},
                 .free_blocks = 0,
                 .stream = segment.stream,
                 .small = segment.small,
                 .expandable = segment.expandable,
                 .private_pool = segment.private_pool};
  for (const SnapshotBlock& block : segment.blocks) {
    if (block.state == BlockState::kFree) {
      use.largest_free = std::max(use.largest_free, block.size);
      ++use.free_blocks;
      continue;
    }
    use.active += block.size;
    all.rounding += block.size - block.requested;
    if (block.state == BlockState::kAwaitingFree) {
      all.awaiting_free += block.size;
    }
  }
  return use;
}

FragmentationUse fragmentation_of(const Snapshot& snapshot, std::int64_t device) {
  FragmentationUse all;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device != device) {
      continue;
    }
    const SegmentUse use = use_of_segment(segment, all);
    all.reserved += use.size;
    all.active += use.active;
    all.largest_free = std::max(all.largest_free, use.largest_free);
    all.in_whole += use.active == Bytes{0} ? use.size : Bytes{0};
    all.expandable_segments += use.expandable ? 1U : 0U;
    if (use.private_pool) {
      ++all.private_segments;
      all.private_bytes += use.size;
    }
    all.segments.push_back(use);
  }
  std::ranges::stable_sort(all.segments, std::ranges::greater{},
                           [](const SegmentUse& use) { return use.size - use.active; });
  return all;
}

/// The block whose allocation reached the peak.
const BlockLife* life_begun_at(const DeviceHistory& history, std::size_t event) {
  const auto found =
      std::ranges::find(history.lives, static_cast<std::uint32_t>(event), &BlockLife::begin);
  return found == history.lives.end() ? nullptr : &*found;
}

}  // namespace

DeviceSummary summary_of(const Snapshot& snapshot, const StackSorter& sorter, std::int64_t device) {
  DeviceSummary summary;
  summary.history = history_of(snapshot, device);
  const DeviceHistory& history = summary.history;
  if (const BlockLife* life =
          history.events > 0 ? life_begun_at(history, history.peak_allocated.event) : nullptr) {
    summary.peak_phase = sorter.phase_of(life->stack);
    summary.peak_line = sorter.line_of(life->stack);
  }
  summary.groups = groups_at(history, sorter, history.peak_allocated.event, summary.at_peak);
  summary.fragmentation = fragmentation_of(snapshot, device);
  return summary;
}

}  // namespace headroom::check
