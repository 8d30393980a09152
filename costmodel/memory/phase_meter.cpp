#include "costmodel/memory/phase_meter.h"

namespace headroom::cost {

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
