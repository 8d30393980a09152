#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "costmodel/memory/caching_allocator.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// The state of a replay between two events: the allocator and the live bytes by role. Used by
/// `replay`, by the exports, and by programs that run: they add events to the program and step
/// through each at once.
class EventReplay {
 public:
  /// Keeps a reference to `program`. With `trace`, the allocator records its actions.
  EventReplay(const ir::RankProgram& program, const ir::AllocatorSettings& settings,
              const DeviceMemory& device, AllocatorTrace* trace = nullptr);

  /// What is known about a block once it is allocated.
  struct Slot {
    Bytes size;  ///< As allocated.
    std::uint32_t site = 0;
    ir::TensorRole role = ir::TensorRole::kTemporary;
    bool live = false;
  };

  /// Processes event `index` of the program. False: out of memory; only the allocator's cache has
  /// changed.
  [[nodiscard]] bool step(std::size_t index);

  [[nodiscard]] Bytes allocated() const { return allocated_; }
  [[nodiscard]] const RoleBytes& by_role() const { return by_role_; }
  [[nodiscard]] const Slot& slot(ir::BlockId block) const { return slots_[block]; }
  [[nodiscard]] std::size_t slot_count() const { return slots_.size(); }
  [[nodiscard]] CachingAllocator& allocator() { return allocator_; }
  [[nodiscard]] const CachingAllocator& allocator() const { return allocator_; }

 private:
  bool allocate(const ir::Event& event);
  void let_go(const ir::Event& event);

  const ir::RankProgram& program_;
  CachingAllocator allocator_;
  std::vector<Slot> slots_;  ///< By `BlockId`.
  Bytes allocated_;
  RoleBytes by_role_{};
};

}  // namespace headroom::cost
