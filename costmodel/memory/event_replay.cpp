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

}  // namespace headroom::cost
