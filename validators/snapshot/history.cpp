#include "validators/snapshot/history.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "costmodel/memory/allocation_size.h"

namespace headroom::check {
namespace {

std::uint64_t end_of(std::uint64_t address, Bytes size) {
  return address + static_cast<std::uint64_t>(size.value());
}

/// The places of segments and large blocks during the history, for sizes of blocks that no longer
/// exist.
class LargeBlocks {
 public:
  LargeBlocks(bool expandable, Bytes max_split_size)
      : expandable_(expandable), max_split_size_(max_split_size) {}

  void add_segment(std::uint64_t address, Bytes size) {
    segments_[address] = end_of(address, size);
  }
  /// What an entry other than an allocation changes.
  void follow(const TraceEntry& entry) {
    if (entry.action == TraceAction::kFreeCompleted) {
      used_.erase(entry.address);
    } else if (entry.action == TraceAction::kSegmentAllocate) {
      add_segment(entry.address, entry.size);
    } else if (entry.action == TraceAction::kSegmentFree) {
      segments_.erase(entry.address);
    }
  }
  void use(std::uint64_t address, Bytes size) {
    if (size > Bytes{cost::kSmallRequest}) {
      used_[address] = end_of(address, size);
    }
  }

  /// The block that a request at `address` gets: all of the free memory there, unless more than
  /// 1 MiB would be left.
  [[nodiscard]] Bytes size_at(std::uint64_t address, Bytes requested) const {
    const Bytes rounded{cost::block_size(std::max(requested.value(), std::int64_t{1}), 0)};
    const auto segment = segments_.upper_bound(address);
    if (expandable_ || rounded <= Bytes{cost::kSmallRequest} || segment == segments_.begin()) {
      return rounded;
    }
    const std::uint64_t segment_end = std::prev(segment)->second;
    const auto next = used_.upper_bound(address);
    const std::uint64_t end =
        next == used_.end() ? segment_end : std::min(segment_end, next->first);
    if (end <= end_of(address, rounded)) {
      return rounded;
    }
    const Bytes gap{static_cast<std::int64_t>(end - address)};
    const bool splits = rounded < max_split_size_ && gap - rounded > Bytes{cost::kSmallRequest};
    return splits ? rounded : gap;
  }

 private:
  bool expandable_;
  Bytes max_split_size_;
  std::map<std::uint64_t, std::uint64_t> segments_;  ///< Address to end.
  std::map<std::uint64_t, std::uint64_t> used_;
};

/// Blocks of at least this size are not split; above every size if there is no limit.
Bytes max_split_size_of(const Snapshot& snapshot) {
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;
  for (const SnapshotSetting& setting : snapshot.settings) {
    if (setting.name == "max_split_size") {
      const std::int64_t size = std::strtoll(setting.value.c_str(), nullptr, 10);
      return Bytes{size > 0 ? std::min(size, kUnlimited) : kUnlimited};
    }
  }
  return Bytes{kUnlimited};
}

class HistoryBuilder {
 public:
  HistoryBuilder(const Snapshot& snapshot, std::int64_t device) : snapshot_(snapshot) {
    history_.device = device;
    for (const DeviceTrace& trace : snapshot.traces) {
      if (trace.device == device) {
        entries_ = trace.entries;
      }
    }
    history_.events = entries_.size();
  }

  DeviceHistory build() {
    find_lives();
    match_end();
    set_reserved_at_start();
    find_sizes();
    sweep();
    find_unwound();
    find_retries();
    return std::move(history_);
  }

 private:
  /// Pairs allocations with releases.
  void find_lives() {
    life_of_.assign(entries_.size(), kNoLife);
    released_.assign(entries_.size(), kNoLife);
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      const TraceEntry& entry = entries_[at];
      const auto event = static_cast<std::uint32_t>(at);
      if (entry.action == TraceAction::kAllocate) {
        if (const auto open = open_.find(entry.address); open != open_.end()) {
          ++history_.unmatched;  // Its release is missing: skip_actions leaves such entries out.
          lives_[open->second].end = event;
        }
        open_[entry.address] = lives_.size();
        lives_.push_back({.address = entry.address,
                          .size = {},
                          .requested = entry.size,
                          .stack = entry.stack,
                          .freed_by = 0,
                          .begin = event,
                          .end = BlockLife::kAlive});
      } else if (entry.action == TraceAction::kFreeRequested) {
        requests_frees_ = true;
        release(entry, event);
      } else if (entry.action == TraceAction::kFreeCompleted &&
                 (!requests_frees_ || open_.contains(entry.address))) {
        release(entry, event);
      } else if (entry.action == TraceAction::kSnapshot) {
        ++history_.snapshots;
      }
    }
  }

  void release(const TraceEntry& entry, std::uint32_t event) {
    if (const auto open = open_.find(entry.address); open != open_.end()) {
      lives_[open->second].end = event;
      lives_[open->second].freed_by = entry.stack;
      open_.erase(open);
      return;
    }
    earlier_.push_back({.address = entry.address,
                        .size = {},
                        .requested = entry.size,
                        .stack = 0,
                        .freed_by = entry.stack,
                        .begin = BlockLife::kBefore,
                        .end = event});
  }

  /// Joins what the history leaves alive with the blocks of the segments.
  void match_end() {
    for (const SnapshotSegment& segment : snapshot_.segments) {
      if (segment.device != history_.device) {
        continue;
      }
      history_.reserved += segment.size;
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.state == BlockState::kAllocated) {
          history_.allocated += block.size;
          match_block(block);
        }
      }
    }
    // What is left open is not allocated any more, and the history does not say since when.
    history_.unmatched += open_.size();
    const auto last = static_cast<std::uint32_t>(entries_.size());
    for (const auto& [address, life] : open_) {
      lives_[life].end = last;
    }
    const auto earlier = static_cast<std::uint32_t>(earlier_.size());
    for (std::size_t at = 0; at < lives_.size(); ++at) {
      life_of_[lives_[at].begin] = earlier + static_cast<std::uint32_t>(at);
    }
    earlier_.insert(earlier_.end(), lives_.begin(), lives_.end());
    history_.lives = std::move(earlier_);
    for (std::size_t at = 0; at < history_.lives.size(); ++at) {
      if (const std::uint32_t end = history_.lives[at].end; end < entries_.size()) {
        released_[end] = static_cast<std::uint32_t>(at);
      }
    }
  }

  void match_block(const SnapshotBlock& block) {
    if (const auto open = open_.find(block.address); open != open_.end()) {
      BlockLife& life = lives_[open->second];
      life.size = block.size;
      life.stack = life.stack == 0 ? block.stack : life.stack;
      open_.erase(open);
      return;
    }
    earlier_.push_back({.address = block.address,
                        .size = block.size,
                        .requested = block.requested,
                        .stack = block.stack,
                        .freed_by = 0,
                        .begin = BlockLife::kBefore,
                        .end = BlockLife::kAlive});
  }

  void set_reserved_at_start() {
    Bytes reserved = history_.reserved;
    for (const TraceEntry& entry : entries_) {
      reserved += entry.action == TraceAction::kSegmentFree       ? entry.size
                  : entry.action == TraceAction::kSegmentAllocate ? -entry.size
                                                                  : Bytes{0};
    }
    history_.reserved_at_start = std::max(reserved, Bytes{0});
  }

  /// The segments before the first entry.
  void place_first_segments(LargeBlocks& places) const {
    std::map<std::uint64_t, Bytes> segments;
    for (const SnapshotSegment& segment : snapshot_.segments) {
      if (segment.device == history_.device) {
        segments[segment.address] = segment.size;
      }
    }
    for (std::size_t left = entries_.size(); left > 0; --left) {
      const TraceEntry& entry = entries_[left - 1];
      if (entry.action == TraceAction::kSegmentAllocate) {
        segments.erase(entry.address);
      } else if (entry.action == TraceAction::kSegmentFree) {
        segments[entry.address] = entry.size;
      }
    }
    for (const auto& [address, size] : segments) {
      places.add_segment(address, size);
    }
  }

  [[nodiscard]] bool is_expandable() const {
    return std::ranges::any_of(snapshot_.segments, [this](const SnapshotSegment& segment) {
      return segment.device == history_.device && segment.expandable;
    });
  }

  /// Blocks from before the history: all of their places are needed for the size of any.
  void find_first_sizes(LargeBlocks& places) {
    std::vector<BlockLife*> unknown;
    for (BlockLife& life : history_.lives) {
      if (life.begin != BlockLife::kBefore) {
        break;
      }
      const bool known = life.size > Bytes{0} || life.requested == Bytes{0};
      places.use(life.address,
                 known ? life.size : Bytes{cost::block_size(life.requested.value(), 0)});
      if (!known) {
        unknown.push_back(&life);
      }
    }
    for (BlockLife* const life : unknown) {
      life->size = places.size_at(life->address, life->requested);
    }
  }

  void find_sizes() {
    LargeBlocks places(is_expandable(), max_split_size_of(snapshot_));
    place_first_segments(places);
    find_first_sizes(places);
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      if (entries_[at].action == TraceAction::kAllocate) {
        BlockLife& life = history_.lives[life_of_[at]];
        if (life.size == Bytes{0} && life.requested > Bytes{0}) {
          life.size = places.size_at(life.address, life.requested);
        }
        places.use(life.address, life.size);
      } else {
        places.follow(entries_[at]);
      }
    }
  }

  /// Adds up allocated and reserved bytes, entry by entry.
  void sweep() {
    for (const BlockLife& life : history_.lives) {
      if (life.begin == BlockLife::kBefore) {
        history_.allocated_at_start += life.size;
      }
    }
    if (entries_.empty()) {
      history_.allocated_at_start = history_.allocated;
      history_.reserved_at_start = history_.reserved;
    }
    Bytes allocated = history_.allocated_at_start;
    Bytes reserved = history_.reserved_at_start;
    history_.peak_allocated = {.event = 0, .bytes = allocated};
    history_.peak_reserved = {.event = 0, .bytes = reserved};
    history_.reserved_at_peak = reserved;
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      const TraceEntry& entry = entries_[at];
      if (released_[at] != kNoLife) {
        allocated -= history_.lives[released_[at]].size;
      }
      if (entry.action == TraceAction::kAllocate) {
        allocated += history_.lives[life_of_[at]].size;
      } else if (entry.action == TraceAction::kSegmentAllocate) {
        reserved += entry.size;
      } else if (entry.action == TraceAction::kSegmentFree) {
        reserved -= std::min(entry.size, reserved);
      } else if (entry.action == TraceAction::kOutOfMemory) {
        history_.out_of_memory.push_back({.event = at,
                                          .requested = entry.size,
                                          .device_free = entry.device_free,
                                          .allocated = allocated,
                                          .reserved = reserved,
                                          .stack = entry.stack});
      }
      if (allocated > history_.peak_allocated.bytes) {
        history_.peak_allocated = {.event = at, .bytes = allocated};
        history_.reserved_at_peak = reserved;
      }
      if (reserved > history_.peak_reserved.bytes) {
        history_.peak_reserved = {.event = at, .bytes = reserved};
      }
    }
  }

  void find_unwound() {
    for (BlockLife& life : history_.lives) {
      life.unwound =
          std::ranges::any_of(history_.out_of_memory, [&life](const OutOfMemoryEvent& event) {
            return life.end != BlockLife::kAlive && life.lives_after(event.event);
          });
    }
  }

  [[nodiscard]] bool calls(StackId stack, std::string_view function) const {
    return std::ranges::any_of(snapshot_.stack(stack), [&](FrameId frame) {
      return snapshot_.function(frame) == function;
    });
  }

  /// Runs of segments that are given back right before a segment is asked for or memory is out.
  /// torch.cuda.empty_cache() does the same without a request; its name is in the stack then.
  void find_retries() {
    for (std::size_t at = 0; at < entries_.size(); ++at) {
      if (entries_[at].action != TraceAction::kSegmentFree) {
        continue;
      }
      CacheRelease release{.event = at, .released = {}, .stack = entries_[at].stack};
      const bool asked_for = calls(release.stack, "empty_cache");
      for (; at < entries_.size() && entries_[at].action == TraceAction::kSegmentFree; ++at) {
        release.released += entries_[at].size;
      }
      const bool then_asks =
          at < entries_.size() && (entries_[at].action == TraceAction::kSegmentAllocate ||
                                   entries_[at].action == TraceAction::kOutOfMemory);
      if (then_asks && !asked_for) {
        history_.retries.push_back(release);
      }
    }
  }

  static constexpr std::uint32_t kNoLife = UINT32_MAX;

  const Snapshot& snapshot_;
  std::span<const TraceEntry> entries_;
  DeviceHistory history_;
  std::vector<BlockLife> lives_;                         ///< Allocated in the history.
  std::vector<BlockLife> earlier_;                       ///< Allocated before.
  std::unordered_map<std::uint64_t, std::size_t> open_;  ///< Address to index in `lives_`.
  std::vector<std::uint32_t> life_of_;   ///< By entry that allocates: index in the history's lives.
  std::vector<std::uint32_t> released_;  ///< The same by entry that releases.
  bool requests_frees_ = false;
};

}  // namespace

DeviceHistory history_of(const Snapshot& snapshot, std::int64_t device) {
  return HistoryBuilder(snapshot, device).build();
}

std::vector<std::int64_t> devices_of(const Snapshot& snapshot) {
  std::set<std::int64_t> devices;
  for (const SnapshotSegment& segment : snapshot.segments) {
    devices.insert(segment.device);
  }
  for (const DeviceTrace& trace : snapshot.traces) {
    devices.insert(trace.device);
  }
  return {devices.begin(), devices.end()};
}

}  // namespace headroom::check
