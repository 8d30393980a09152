#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/cell_search.h"

namespace headroom::plan {

/// Bounds on the plans of a cell that are lowered whole, before they are.
///
/// Model:   `LoweredPlans::least_step`; and of plans that differ in how many layers run again alone
///          the one that runs more again takes no less: its program has the other's work and more.
class LoweredBounds {
 public:
  /// Keeps references to all three.
  LoweredBounds(const SearchState& state, const BoundedCell& cell, const Choices& choices);

  /// What plan number `index` takes at least, as far as is known before any is lowered.
  [[nodiscard]] double seconds(std::uint64_t index) const;

  /// The same with what other plans of the cell took.
  [[nodiscard]] double seconds_now(std::uint64_t index) const;

  /// Whether the peak of plan number `index` is above `ceiling`, as far as bounds can say.
  ///
  /// Errors:  those of the lowering.
  [[nodiscard]] Result<bool> is_above(std::uint64_t index, Bytes ceiling) const;

 private:
  const SearchState& state_;
  const BoundedCell& cell_;
  const Choices& choices_;
  /// Plans that differ from the plan in nothing but that fewer layers run again.
  std::vector<std::vector<std::uint64_t>> lighter_;
};

}  // namespace headroom::plan
