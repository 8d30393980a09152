#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/memory/allocator_model.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cost {

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

/// PyTorch's native caching allocator.
///
/// Model:   512-byte rounding; small (<= 1 MiB) and large pools per stream; 2 and 20 MiB segments;
///          best fit by size, then by address; splitting; merging with free neighbours;
///          max_split_size, roundup_power2_divisions, garbage_collection_threshold,
///          expandable_segments; release of cached segments and one retry before out of memory.
///          Segments lie where the driver puts them (`DriverAddresses`), or above one another.
///          A request for no bytes succeeds and takes nothing.
/// Ignores: frees delayed by cross-stream events, private pools of CUDA graphs.
/// Source:  pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h, 2.11.
[[nodiscard]] std::unique_ptr<AllocatorModel> make_caching_allocator(
    const ir::AllocatorSettings& settings, const DeviceMemory& device);
/// The same on a device of `capacity` bytes, without a memory fraction.
[[nodiscard]] std::unique_ptr<AllocatorModel> make_caching_allocator(
    const ir::AllocatorSettings& settings, Bytes capacity);

}  // namespace headroom::cost
