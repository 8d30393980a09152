#include "costmodel/memory/timeline.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "costmodel/memory/event_replay.h"
#include "model_ir/base/check.h"

namespace headroom::cost {
namespace {

/// Replays one phase into `memory`. Returns the event that ran out of memory, if any.
std::optional<std::size_t> run_phase(EventReplay& run, const ir::Phase& phase,
                                     PhaseMemory& memory) {
  PhaseMeter meter(run, phase.name, phase.begin);
  std::optional<std::size_t> failed;
  for (std::size_t event = phase.begin; event < phase.end && !failed; ++event) {
    if (!meter.step(event)) {
      failed = event;
    }
  }
  memory = meter.result();
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
      timeline.out_of_memory = OutOfMemory{.event = *failed,
                                           .phase = index,
                                           .requested = Bytes{program.events[*failed].bytes},
                                           .allocated = run.allocated(),
                                           .reserved = run.allocator().state().reserved};
      break;
    }
  }
  timeline.block_sizes.reserve(run.slot_count());
  for (ir::BlockId block = 0; block < run.slot_count(); ++block) {
    timeline.block_sizes.push_back(run.slot(block).size);
  }
  return timeline;
}

MemoryTimeline replay(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                      Bytes capacity) {
  return replay(program, settings, DeviceMemory{.capacity = capacity});
}

std::vector<LiveBlock> live_blocks(const ir::RankProgram& program, const MemoryTimeline& timeline,
                                   std::size_t event) {
  std::size_t end = std::min(event + 1, program.events.size());
  if (timeline.out_of_memory) {
    end = std::min(end, timeline.out_of_memory->event);
  }
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> born(program.blocks, kNone);  // Event that allocated a live block.
  for (std::size_t index = 0; index < end; ++index) {
    const ir::Event& at = program.events[index];
    if (at.kind != ir::EventKind::kEmptyCache) {
      born[at.block] = at.kind == ir::EventKind::kAllocate ? index : kNone;
    }
  }
  std::vector<LiveBlock> live;
  for (ir::BlockId block = 0; block < born.size(); ++block) {
    if (born[block] != kNone) {
      const ir::Event& at = program.events[born[block]];
      live.push_back(
          {.block = block, .size = timeline.block_sizes[block], .role = at.role, .site = at.site});
    }
  }
  std::ranges::stable_sort(live, std::ranges::greater{}, &LiveBlock::size);
  return live;
}

}  // namespace headroom::cost
