#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "planner/evaluate/cell_memory.h"
#include "planner/search/cell_search.h"
#include "planner/search/cell_times.h"

namespace headroom::plan {

/// More than any device has.
inline constexpr Bytes kMostBytes{std::numeric_limits<std::int64_t>::max()};

/// The plans of one cell of Megatron's: their times, their peaks and what these are at least.
class CellPlans {
 public:
  /// Keeps references to the first two.
  CellPlans(const SearchState& state, const BoundedCell& cell, const BlockTimes& blocks);

  /// Those that the rules on switches and refusals leave over, in the order of the cell.
  [[nodiscard]] std::vector<Timed> listed();
  [[nodiscard]] Timed timed(std::uint64_t index) {
    return {.seconds = times_.parts(index).total().value(), .index = index};
  }
  [[nodiscard]] const Choices& choices() const { return choices_; }
  [[nodiscard]] Bytes capacity() const { return capacity_; }

  /// Whether plan number `index` needs more than `ceiling`, as far as can be said without its peak.
  [[nodiscard]] bool is_above(std::uint64_t index, Bytes ceiling) {
    return floor_of(index) > ceiling || memory_.floor(index) > ceiling;
  }
  /// What plan number `index` needs at least.
  [[nodiscard]] Bytes floor(std::uint64_t index) {
    return std::max(floor_of(index), memory_.floor(index));
  }
  /// `CellMemory::peak`.
  [[nodiscard]] Result<Bytes> peak(std::uint64_t index, Bytes ceiling) {
    return memory_.peak(index, ceiling);
  }
  [[nodiscard]] RatedPlan rated(const Timed& timed, Bytes peak);

  /// No plan of `cell` needs less; worked out no further than it takes to be above `enough`.
  [[nodiscard]] static Bytes cell_floor(const SearchState& state, const BoundedCell& cell,
                                        Bytes enough);

 private:
  [[nodiscard]] Bytes floor_of(std::uint64_t index);

  const SearchState& state_;
  const BoundedCell& cell_;
  Bytes capacity_;
  Choices choices_;
  CellTimes times_;
  CellMemory memory_;
  /// `PlanMemory::floor`: plans of a cell differ by recomputation and by whether optimizer states
  /// are spread and in part on the host.
  std::vector<std::optional<Bytes>> floors_;
};

}  // namespace headroom::plan
