#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

using RoleBytes = std::array<Bytes, ir::kTensorRoleCount>;  ///< Indexed by `ir::TensorRole`.

/// What the allocator may take.
struct DeviceMemory {
  Bytes capacity;  ///< What the driver can give it: the device's total less everything outside.
  /// torch.cuda.set_per_process_memory_fraction, times the device's total; garbage collection is
  /// only active with it (setMemoryFraction, get_free_block).
  std::optional<Bytes> allowed = std::nullopt;
};

/// What an allocator did.
enum class TraceAction : std::uint8_t {
  kAllocate,
  kFree,
  kSegmentAllocate,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOutOfMemory,
};

/// One line of an allocator's history.
struct TraceEntry {
  TraceAction action = TraceAction::kAllocate;
  ir::StreamId stream = 0;
  ir::BlockId block = 0;  ///< Of `kAllocate`, `kFree` and `kOutOfMemory`.
  std::int64_t address = 0;
  std::int64_t size = 0;  ///< Requested bytes of a block, bytes of a segment or of pages.
  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};
using AllocatorTrace = std::vector<TraceEntry>;

/// A piece of a segment.
struct BlockView {
  std::int64_t address = 0;
  std::int64_t size = 0;       ///< Bytes.
  std::int64_t requested = 0;  ///< Bytes; 0 when free.
  bool live = false;
  ir::BlockId block = 0;  ///< When live.
};

/// A stretch of device memory obtained from the driver, as torch.cuda.memory_snapshot shows it:
/// of an expandable segment, one mapped stretch.
struct SegmentView {
  std::int64_t address = 0;
  std::int64_t size = 0;
  ir::StreamId stream = 0;
  bool small = false;
  bool expandable = false;
  std::vector<BlockView> blocks;  ///< In order, without gaps.
};

/// What an allocator says of itself at one moment.
struct AllocatorState {
  Bytes allocated;  ///< Sum of the blocks handed out, rounding and unsplit tails included.
  Bytes requested;  ///< Sum of what was asked for.
  Bytes reserved;   ///< Sum of the segments obtained from the driver.
  Bytes peak_allocated;
  Bytes peak_requested;
  Bytes peak_reserved;
  std::int64_t retries = 0;  ///< Times the whole cache was given back because an allocation failed.
  friend bool operator==(const AllocatorState&, const AllocatorState&) = default;
};

}  // namespace headroom::cost
