#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "costmodel/memory/timeline.h"
#include "validators/dryrun/recorded_program.h"

namespace headroom::check {

/// A figure of a phase for which a replay and the allocator itself disagree.
struct ReplayDifference {
  std::size_t phase = 0;  ///< Index in `RecordedProgram::phases`.
  std::string_view what;  ///< "peak reserved"
  Bytes recorded;
  Bytes replayed;
};

/// PyTorch's default settings on the stand-in for a GPU, which hands out rising addresses
/// (validators/dryrun/standin/device_memory.h). Addresses decide between free blocks of one size.
[[nodiscard]] ir::AllocatorSettings standin_settings();

/// The memory that PyTorch's allocator had in the recording.
[[nodiscard]] cost::DeviceMemory recorded_memory(const RecordedProgram& recorded);

/// Compares the replay of a recorded program, on the GPU and with the settings of the recording,
/// with what PyTorch's allocator reported: allocated, requested and reserved bytes of every phase,
/// at their peaks and at its end. Empty: they are the same to the byte.
[[nodiscard]] std::vector<ReplayDifference> replay_differences(const RecordedProgram& recorded,
                                                               const cost::MemoryTimeline& replay);

}  // namespace headroom::check
