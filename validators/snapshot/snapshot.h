#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/units.h"

namespace headroom::check {

/// Index into `Snapshot::frames`.
using FrameId = std::uint32_t;
/// Index into `Snapshot::stacks`; stack 0 has no frames.
using StackId = std::uint32_t;

/// One line of a stack.
struct StackFrame {
  std::uint32_t file = 0;      ///< Index into `Snapshot::names`.
  std::uint32_t function = 0;  ///< Index into `Snapshot::names`.
  std::int64_t line = 0;
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

/// What the caching allocator did.
///
/// Source:  pytorch torch/csrc/cuda/memory_snapshot.cpp 2.0 to 2.11, `action_to_str`.
enum class TraceAction : std::uint8_t {
  kAllocate,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAllocate,  ///< cudaMalloc, or pages mapped into an expandable segment.
  kSegmentFree,      ///< cudaFree, or pages unmapped.
  kSnapshot,
  kOutOfMemory,
  kOther,
};

/// One entry of a device's history.
struct TraceEntry {
  TraceAction action = TraceAction::kOther;
  StackId stack = 0;
  std::uint64_t address = 0;  ///< 0 for an out-of-memory event.
  std::uint64_t stream = 0;
  Bytes size;              ///< As requested, before rounding to a block.
  Bytes device_free;       ///< Out of memory only: what the driver still had.
  std::int64_t time = -1;  ///< Microseconds since 1970; -1: not recorded (before 2.2).
};

enum class BlockState : std::uint8_t {
  kAllocated,     ///< A tensor uses it.
  kAwaitingFree,  ///< Freed, but another stream may still use it.
  kFree,
};

/// A piece of a segment.
struct SnapshotBlock {
  std::uint64_t address = 0;
  Bytes size;
  Bytes requested;  ///< At most `size`; equal to it where releases before 2.0 do not tell.
  BlockState state = BlockState::kFree;
  StackId stack = 0;
};

/// Memory that the allocator has from the driver.
struct SnapshotSegment {
  std::int64_t device = 0;
  std::uint64_t address = 0;
  Bytes size;
  std::uint64_t stream = 0;
  bool small = false;  ///< For requests of at most 1 MiB.
  bool expandable = false;
  bool private_pool = false;          ///< Of a CUDA graph or a torch.cuda.MemPool.
  std::vector<SnapshotBlock> blocks;  ///< In the order of their addresses, without gaps.
};

/// The history of one device, oldest entry first.
struct DeviceTrace {
  std::int64_t device = 0;
  std::vector<TraceEntry> entries;
};

/// A marker in time that PyTorch or the user's code has set (torch.profiler.record_function).
struct SnapshotAnnotation {
  std::string name;  ///< "Optimizer.step#AdamW.step"
  std::int64_t device = 0;
  std::int64_t time = 0;  ///< Microseconds since 1970.
  bool begins = false;    ///< Otherwise it ends.
};

/// One setting of the allocator, as text: "expandable_segments", "True".
struct SnapshotSetting {
  std::string name;
  std::string value;
};

/// A memory snapshot of PyTorch, as torch.cuda.memory._dump_snapshot writes it.
struct Snapshot {
  std::vector<std::string> names;  ///< Files and functions; name 0 is empty.
  std::vector<StackFrame> frames;
  std::vector<std::uint32_t> stack_begins;  ///< In `stack_frames`, and one past the last.
  std::vector<FrameId> stack_frames;        ///< Innermost frame of each stack first.
  std::vector<SnapshotSegment> segments;    ///< By device and address.
  std::vector<DeviceTrace> traces;          ///< Devices with a history.
  std::vector<SnapshotAnnotation> annotations;
  std::vector<SnapshotSetting> settings;
  std::vector<std::string> unknown_actions;  ///< Actions of `kOther`, each once.

  [[nodiscard]] std::size_t stacks() const { return stack_begins.size() - 1; }
  [[nodiscard]] std::span<const FrameId> stack(StackId id) const {
    return std::span(stack_frames)
        .subspan(stack_begins[id], stack_begins[id + 1] - stack_begins[id]);
  }
  [[nodiscard]] std::string_view file(FrameId id) const { return names[frames[id].file]; }
  [[nodiscard]] std::string_view function(FrameId id) const { return names[frames[id].function]; }
};

}  // namespace headroom::check
