#pragma once

#include <cstddef>
#include <cstdint>

#include "costmodel/memory/allocator_state.h"
#include "costmodel/memory/event_replay.h"
#include "model_ir/plan/phase_name.h"

namespace headroom::cost {

/// The allocator's statistics in one phase, as torch.cuda.memory_stats reports them.
struct PhaseMemory {
  ir::PhaseName name;
  Bytes allocated_before;
  Bytes allocated_after;
  Bytes peak_allocated;  ///< Peak over the phase, its beginning included.
  Bytes reserved_after;
  Bytes peak_reserved;
  Bytes requested_after;
  Bytes peak_requested;
  std::int64_t retries = 0;  ///< Retries since the program's start.
  /// The first event after which `peak_allocated` is reached; if the phase begins at its peak, the
  /// last event before the phase.
  std::size_t peak_event = 0;
  RoleBytes at_peak{};  ///< Bytes by role at that moment; the sum is `peak_allocated`.
  RoleBytes after{};
};

/// Measures a phase while its events are replayed.
class PhaseMeter {
 public:
  /// Begins a phase whose first event is `begin`; resets the allocator's peaks. Keeps a reference
  /// to `run`.
  PhaseMeter(EventReplay& run, const ir::PhaseName& name, std::size_t begin);
  /// `EventReplay::step`, and what the phase remembers of it.
  [[nodiscard]] bool step(std::size_t event);
  /// The allocator's statistics from the beginning of the phase until now.
  [[nodiscard]] PhaseMemory result() const;

 private:
  EventReplay& run_;
  PhaseMemory memory_;
};

}  // namespace headroom::cost
