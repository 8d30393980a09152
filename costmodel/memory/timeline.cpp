#include "costmodel/memory/timeline.h"

#include <algorithm>
#include <functional>

#include "costmodel/memory/event_replay.h"
#include "model_ir/base/check.h"

namespace headroom::cost {
namespace {

/// Replays one phase into `memory`; the event that could not be served, if any.
std::optional<std::size_t> run_phase(EventReplay& run, const ir::Phase& phase,
                                     PhaseMemory& memory) {
  run.allocator().reset_peaks();
  memory.name = phase.name;
  memory.allocated_before = run.allocated();
  memory.peak_allocated = run.allocated();
  memory.peak_event = phase.begin == 0 ? 0 : phase.begin - 1;
  memory.at_peak = run.by_role();
  std::optional<std::size_t> failed;
  for (std::size_t event = phase.begin; event < phase.end; ++event) {
    if (!run.step(event)) {
      failed = event;
      break;
    }
    if (run.allocated() > memory.peak_allocated) {
      memory.peak_allocated = run.allocated();
      memory.peak_event = event;
      memory.at_peak = run.by_role();
    }
  }
  const AllocatorState state = run.allocator().state();
  memory.allocated_after = state.allocated;
  memory.reserved_after = state.reserved;
  memory.peak_reserved = state.peak_reserved;
  memory.requested_after = state.requested;
  memory.peak_requested = state.peak_requested;
  memory.retries = state.retries;
  memory.after = run.by_role();
  return failed;
}

}  // namespace

MemoryTimeline replay(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                      const DeviceMemory& device) {
  EventReplay run(program, settings, device);
  MemoryTimeline timeline;
  timeline.phases.reserve(program.phases.size());
  for (std::size_t index = 0; index < program.phases.size(); ++index) {
    const ir::Phase& phase = program.phases[index];
    HEADROOM_ASSERT(phase.begin <= phase.end && phase.end <= program.events.size());
    const std::optional<std::size_t> failed = run_phase(run, phase, timeline.phases.emplace_back());
    if (timeline.phases[index].peak_allocated >
        timeline.phases[timeline.peak_phase].peak_allocated) {
      timeline.peak_phase = index;
    }
    if (failed) {
      const AllocatorState state = run.allocator().state();
      timeline.out_of_memory = OutOfMemory{.event = *failed,
                                           .phase = index,
                                           .requested = Bytes{program.events[*failed].bytes},
                                           .allocated = state.allocated,
                                           .reserved = state.reserved};
      break;
    }
  }
  return timeline;
}

MemoryTimeline replay(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                      Bytes capacity) {
  return replay(program, settings, DeviceMemory{.capacity = capacity});
}

std::vector<LiveBlock> live_blocks(const ir::RankProgram& program,
                                   const ir::AllocatorSettings& settings, Bytes capacity,
                                   std::size_t event) {
  EventReplay run(program, settings, DeviceMemory{.capacity = capacity});
  for (std::size_t index = 0; index <= event && index < program.events.size(); ++index) {
    if (!run.step(index)) {
      break;
    }
  }
  std::vector<LiveBlock> live;
  for (ir::BlockId block = 0; block < run.slot_count(); ++block) {
    const EventReplay::Slot& slot = run.slot(block);
    if (slot.live) {
      live.push_back({.block = block, .size = slot.size, .role = slot.role, .site = slot.site});
    }
  }
  std::ranges::stable_sort(live, std::ranges::greater{}, &LiveBlock::size);
  return live;
}

}  // namespace headroom::cost
