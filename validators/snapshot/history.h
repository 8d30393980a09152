#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/base/units.h"
#include "validators/snapshot/snapshot.h"

namespace headroom::check {

/// A tensor's memory from its allocation to its release.
struct BlockLife {
  static constexpr std::uint32_t kBefore = UINT32_MAX;  ///< Allocated before the history begins.
  static constexpr std::uint32_t kAlive = UINT32_MAX;   ///< Still allocated at the end.

  std::uint64_t address = 0;
  Bytes size;       ///< Of the block: what counts as allocated.
  Bytes requested;  ///< What was asked for.
  StackId stack = 0;
  StackId freed_by = 0;           ///< Stack of the release.
  std::uint32_t begin = kBefore;  ///< The entry that allocates it.
  std::uint32_t end = kAlive;     ///< The entry that releases it.
  /// Released after memory ran out during its life: by the exception, not when it was done with.
  bool unwound = false;

  /// Whether it is allocated just after entry `event`.
  [[nodiscard]] bool lives_after(std::size_t event) const {
    return (begin == kBefore || begin <= event) && (end == kAlive || end > event);
  }
};

/// A moment at which the allocator raised torch.OutOfMemoryError.
struct OutOfMemoryEvent {
  std::size_t event = 0;
  Bytes requested;
  Bytes device_free;  ///< What the driver still had.
  Bytes allocated;    ///< At that moment.
  Bytes reserved;
  StackId stack = 0;
};

/// A request for which the allocator gave cached memory back to the driver and asked again.
struct CacheRelease {
  std::size_t event = 0;  ///< The first segment that was given back.
  Bytes released;
  StackId stack = 0;
};

/// The most that was reached, and the first entry after which it was.
struct TracePeak {
  std::size_t event = 0;
  Bytes bytes;
};

/// What one device's memory did, as far as a snapshot tells.
struct DeviceHistory {
  std::int64_t device = 0;
  std::size_t events = 0;        ///< Entries of the history; 0: none was recorded.
  std::vector<BlockLife> lives;  ///< Those before the history first, then in its order.
  Bytes allocated_at_start;      ///< Before the first entry.
  Bytes reserved_at_start;
  Bytes allocated;  ///< Now: when the snapshot was taken.
  Bytes reserved;
  TracePeak peak_allocated;  ///< Over the history, its begin included; without one: now.
  TracePeak peak_reserved;
  Bytes reserved_at_peak;  ///< When `peak_allocated` was reached.
  std::vector<OutOfMemoryEvent> out_of_memory;
  std::vector<CacheRelease> retries;
  std::size_t snapshots = 0;  ///< How often a snapshot was taken during the history.
  /// Releases and allocations that do not fit together: the history lacks entries.
  std::size_t unmatched = 0;

  /// Whether the history begins before the first allocation, so that the peak is that of the run.
  [[nodiscard]] bool is_whole() const {
    return events > 0 && allocated_at_start == Bytes{0} && reserved_at_start == Bytes{0};
  }
};

/// Follows every block of `device` through the snapshot.
///
/// Model:   the history ends in the state of the segments. What is alive there and not allocated in
///          the history, and what the history releases and does not allocate, was allocated before.
///          Sizes of blocks that are alive at the end are in the snapshot. Those of others follow
///          from the request and from the free memory around it: PyTorch rounds to 512 bytes and
///          keeps a rest of at most 1 MiB in blocks of more than 1 MiB.
/// Units:   bytes; entries are numbered from 0.
/// Ignores: roundup_power2_divisions, which rounds blocks that have been released further up.
/// Source:  c10/cuda/CUDACachingAllocator.cpp 2.11, round_size and should_split; torch/utils/viz/
///          MemoryViz.js (the history ends in the segments).
[[nodiscard]] DeviceHistory history_of(const Snapshot& snapshot, std::int64_t device);

/// The devices that a snapshot says anything about, in order.
[[nodiscard]] std::vector<std::int64_t> devices_of(const Snapshot& snapshot);

}  // namespace headroom::check
