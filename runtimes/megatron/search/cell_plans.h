#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/search/evaluator.h"
#include "runtimes/megatron/search/cell_memory.h"
#include "runtimes/megatron/search/cell_times.h"

namespace headroom::plan {

/// The plans of one cell of Megatron: their times, their peaks, and lower bounds of the peaks.
class CellPlans {
 public:
  /// Keeps references to all arguments.
  CellPlans(const SearchState& state, PlanMemory& memory, const BoundedCell& cell,
            const BlockTimes& blocks);

  /// The plans that rules on switches and refusals permit, in the order of the cell.
  [[nodiscard]] std::vector<Timed> listed();
  [[nodiscard]] Timed timed(std::uint64_t index) {
    return {.seconds = times_.parts(index).total().value(), .index = index};
  }
  [[nodiscard]] const MegatronChoices& choices() const { return choices_; }
  [[nodiscard]] Bytes capacity() const { return capacity_; }
  /// Whether plan number `index` of the cell keeps anything on the host.
  [[nodiscard]] bool may_use_host(std::uint64_t index) const;

  /// Whether plan number `index` needs more than `ceiling`, as far as its lower bounds tell.
  [[nodiscard]] bool is_above(std::uint64_t index, Bytes ceiling) {
    return floor_of(index) > ceiling || memory_.floor(index) > ceiling;
  }
  /// A lower bound of what plan number `index` needs.
  [[nodiscard]] Bytes floor(std::uint64_t index) {
    return std::max(floor_of(index), memory_.floor(index));
  }
  /// `CellMemory::peak`.
  [[nodiscard]] Result<Bytes> peak(std::uint64_t index, Bytes ceiling) {
    return memory_.peak(index, ceiling);
  }
  [[nodiscard]] RatedPlan rated(const Timed& timed, Bytes peak);
  /// The memory that plan number `index` takes of a node's host; null if it takes nothing or if
  /// that is not judged.
  [[nodiscard]] const cost::HostMemory* host(std::uint64_t index);

 private:
  /// The plans whose peaks count.
  [[nodiscard]] const MegatronChoices& held() const { return loaded_ ? *loaded_ : choices_; }
  [[nodiscard]] Bytes floor_of(std::uint64_t index);

  const SearchState& state_;
  PlanMemory& plan_memory_;
  const BoundedCell& cell_;
  const BlockTimes& blocks_;
  Bytes capacity_;
  MegatronChoices choices_;
  /// The same with the load of the busiest rank's experts, if it is not an even share.
  std::optional<MegatronChoices> loaded_;
  CellTimes times_;
  CellMemory memory_;
  /// `PlanMemory::floor`. For plans of a cell it depends on recomputation, and on whether optimizer
  /// states are sharded and partly on the host.
  std::vector<std::optional<Bytes>> floors_;
};

}  // namespace headroom::plan
