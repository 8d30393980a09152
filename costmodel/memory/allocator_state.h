#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

using RoleBytes = std::array<Bytes, ir::kTensorRoleCount>;  ///< Indexed by `ir::TensorRole`.

/// How much memory the allocator may use.
struct DeviceMemory {
  Bytes capacity;  ///< What the driver can provide: the device's total minus the outside terms.
  /// torch.cuda.set_per_process_memory_fraction times the device's total. Garbage collection is
  /// active only if it is set (setMemoryFraction, get_free_block).
  std::optional<Bytes> allowed = std::nullopt;
};

/// Real memory behind the segments of an allocator that serves a running program. Segments are
/// named by the addresses that the allocator has chosen for them; the memory itself lies wherever
/// the source has put it.
class SegmentSource {
 public:
  SegmentSource() = default;
  SegmentSource(const SegmentSource&) = delete;
  SegmentSource& operator=(const SegmentSource&) = delete;
  virtual ~SegmentSource() = default;
  /// Obtains memory for the segment at `address`. False: the device has too little.
  [[nodiscard]] virtual bool open(std::int64_t address, Bytes bytes) = 0;
  /// Gives the memory of the segment at `address` back.
  virtual void close(std::int64_t address) = 0;
};

/// One kind of action of the allocator.
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
  ir::BlockId block = 0;  ///< For `kAllocate`, `kFree` and `kOutOfMemory`.
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

/// A stretch of device memory obtained from the driver, as torch.cuda.memory_snapshot shows it; one
/// mapped stretch if the segment is expandable.
struct SegmentView {
  std::int64_t address = 0;
  std::int64_t size = 0;
  ir::StreamId stream = 0;
  bool small = false;
  bool expandable = false;
  std::vector<BlockView> blocks;  ///< In order, without gaps.
};

/// The allocator's statistics at one moment.
struct AllocatorState {
  Bytes allocated;  ///< Sum of the blocks handed out, rounding and unsplit tails included.
  Bytes requested;  ///< Sum of the requested bytes.
  Bytes reserved;   ///< Sum of the segments obtained from the driver.
  Bytes peak_allocated;
  Bytes peak_requested;
  Bytes peak_reserved;
  std::int64_t retries = 0;  ///< How often the cache was released after a failed allocation.
  friend bool operator==(const AllocatorState&, const AllocatorState&) = default;
};

}  // namespace headroom::cost
