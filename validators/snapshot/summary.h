#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model_ir/base/units.h"
#include "validators/snapshot/history.h"
#include "validators/snapshot/snapshot.h"
#include "validators/snapshot/stack_rules.h"

namespace headroom::check {

/// Blocks of one size that the same line asked for.
struct BlockGroup {
  BlockUse use = BlockUse::kUnexplained;
  Bytes requested;  ///< Of each block.
  Bytes bytes;      ///< Of all blocks together.
  std::size_t count = 0;
  StackId stack = 0;  ///< Of one of them.
};

/// How well a segment is used.
struct SegmentUse {
  std::uint64_t address = 0;
  Bytes size;
  Bytes active;        ///< Allocated, or awaiting release on another stream.
  Bytes largest_free;  ///< The largest block that a request can get.
  std::size_t free_blocks = 0;
  std::uint64_t stream = 0;
  bool small = false;
  bool expandable = false;
  bool private_pool = false;
};

/// The free memory that PyTorch holds when the snapshot was taken.
struct FragmentationUse {
  Bytes reserved;
  Bytes active;
  Bytes awaiting_free;  ///< Of `active`.
  Bytes rounding;       ///< Of `active`: what blocks have beyond what was asked for.
  Bytes in_whole;       ///< Free: segments that nobody uses; torch.cuda.empty_cache() returns them.
  Bytes largest_free;   ///< The largest free block.
  std::size_t expandable_segments = 0;
  std::size_t private_segments = 0;
  Bytes private_bytes;
  std::vector<SegmentUse> segments;  ///< Most free bytes first, ties by address.

  [[nodiscard]] Bytes free() const { return reserved - active; }
};

/// What a snapshot says of one device.
struct DeviceSummary {
  DeviceHistory history;
  /// The moment described: the peak of the history, or now if none was recorded.
  std::string peak_phase;  ///< "optimizer"; empty: not known.
  std::string peak_line;   ///< The line that asked for the block with which it was reached.
  UseBytes at_peak{};
  std::vector<BlockGroup> groups;  ///< Alive at the peak, largest sum first.
  FragmentationUse fragmentation;  ///< Now.
};

/// Summarises one device.
///
/// Units:   bytes.
[[nodiscard]] DeviceSummary summary_of(const Snapshot& snapshot, const StackSorter& sorter,
                                       std::int64_t device);

}  // namespace headroom::check
