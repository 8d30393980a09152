#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/memory/allocator_state.h"
#include "costmodel/memory/phase_meter.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// The allocation that ran out of memory.
struct OutOfMemory {
  std::size_t event = 0;
  std::size_t phase = 0;
  Bytes requested;
  Bytes allocated;
  Bytes reserved;
};

/// The replay of one rank's program.
struct MemoryTimeline {
  std::vector<PhaseMemory> phases;  ///< Up to and including the one that ran out of memory.
  std::optional<OutOfMemory> out_of_memory;
  std::size_t peak_phase = 0;      ///< Phase with the highest `peak_allocated`; the first if equal.
  std::vector<Bytes> block_sizes;  ///< As allocated, by `ir::BlockId`; 0: never allocated.
};

/// Replays `program` through PyTorch's caching allocator on a device of `capacity` bytes.
///
/// Model:   costmodel/memory/caching_allocator.h; events are processed in program order; frees take
///          effect at once.
/// Units:   `capacity` is what the allocator may take from the driver: the device's total less
///          everything outside the allocator.
/// Ignores: frees delayed by cross-stream events.
[[nodiscard]] MemoryTimeline replay(const ir::RankProgram& program,
                                    const ir::AllocatorSettings& settings, Bytes capacity);

/// The same on a device with an additional limit (a memory fraction).
[[nodiscard]] MemoryTimeline replay(const ir::RankProgram& program,
                                    const ir::AllocatorSettings& settings,
                                    const DeviceMemory& device);

/// A block that is alive at a moment, for "what is alive at the peak".
struct LiveBlock {
  ir::BlockId block = 0;
  Bytes size;  ///< As allocated.
  ir::TensorRole role = ir::TensorRole::kTemporary;
  std::uint32_t site = 0;
  friend bool operator==(const LiveBlock&, const LiveBlock&) = default;
};
/// Blocks alive just after event `event`, largest first, ties by block id. If the replay runs out
/// of memory before that event, blocks alive just before the failed allocation. Requires that
/// `timeline` is a replay of `program`.
[[nodiscard]] std::vector<LiveBlock> live_blocks(const ir::RankProgram& program,
                                                 const MemoryTimeline& timeline, std::size_t event);

}  // namespace headroom::cost
