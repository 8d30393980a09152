#include "costmodel/memory/event_replay.h"

#include "model_ir/base/check.h"

namespace headroom::cost {

EventReplay::EventReplay(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
                         const DeviceMemory& device, AllocatorTrace* trace)
    : program_(program), allocator_(settings, device, trace), slots_(program.blocks) {}

bool EventReplay::step(std::size_t index) {
  HEADROOM_ASSERT(index < program_.events.size());
  const ir::Event& event = program_.events[index];
  switch (event.kind) {
    case ir::EventKind::kAllocate:
      return allocate(event);
    case ir::EventKind::kLetGo:
      let_go(event);
      return true;
    case ir::EventKind::kFree:
      let_go(event);
      allocator_.free(event.block);
      return true;
    case ir::EventKind::kEmptyCache:
      allocator_.empty_cache();
      return true;
  }
  return true;
}

bool EventReplay::allocate(const ir::Event& event) {
  HEADROOM_ASSERT(event.block < program_.blocks);
  if (event.block >= slots_.size()) {
    slots_.resize(program_.blocks);  // The program has grown since this replay began.
  }
  if (!allocator_.allocate(event.block, Bytes{event.bytes}, event.stream)) {
    return false;
  }
  const Bytes size = allocator_.size_of(event.block);
  slots_[event.block] = {.size = size, .site = event.site, .role = event.role, .live = true};
  allocated_ += size;
  by_role_[static_cast<std::size_t>(event.role)] += size;
  return true;
}

void EventReplay::let_go(const ir::Event& event) {
  HEADROOM_ASSERT(event.block < slots_.size());
  Slot& slot = slots_[event.block];
  if (!slot.live) {
    return;  // It was let go before it is freed.
  }
  allocated_ -= slot.size;
  by_role_[static_cast<std::size_t>(slot.role)] -= slot.size;
  slot.live = false;
}

PhaseMeter::PhaseMeter(EventReplay& run, const ir::PhaseName& name, std::size_t begin) : run_(run) {
  run_.allocator().reset_peaks();
  memory_.name = name;
  memory_.allocated_before = run_.allocated();
  memory_.peak_allocated = run_.allocated();
  memory_.peak_event = begin == 0 ? 0 : begin - 1;
  memory_.at_peak = run_.by_role();
}

bool PhaseMeter::step(std::size_t event) {
  if (!run_.step(event)) {
    return false;
  }
  if (run_.allocated() > memory_.peak_allocated) {
    memory_.peak_allocated = run_.allocated();
    memory_.peak_event = event;
    memory_.at_peak = run_.by_role();
  }
  return true;
}

PhaseMemory PhaseMeter::result() const {
  PhaseMemory memory = memory_;
  const AllocatorState state = run_.allocator().state();
  memory.allocated_after = run_.allocated();
  memory.reserved_after = state.reserved;
  memory.peak_reserved = state.peak_reserved;
  memory.requested_after = state.requested;
  memory.peak_requested = state.peak_requested;
  memory.retries = state.retries;
  memory.after = run_.by_role();
  return memory;
}

}  // namespace headroom::cost
