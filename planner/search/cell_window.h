#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/search/evaluator.h"

namespace headroom::plan {

/// Cells of a space that may have a plan that fits, with their bounds: all of them, or those with
/// the lowest bounds where memory has no room for more.
struct CellWindow {
  std::vector<BoundedCell> cells;
  /// A lower bound of the worth of replays in cells that had no room; none: there are no such
  /// cells.
  std::optional<Worth> left;
  /// If some had no room: cells with greater bounds are among those, and no others.
  std::optional<Worth> last;
  /// Whether the walk through the space ended before its last cell. Then nothing is known of the
  /// cells behind.
  bool cut = false;
  std::uint64_t walked = 0;       ///< Cells.
  std::uint64_t plans = 0;        ///< Plans of the cells that were walked.
  std::vector<LeftOut> left_out;  ///< `walk_cells`
};

/// Which cells a window holds.
struct WindowLimits {
  /// A plan that is known: cells without a better one are dropped for good.
  std::optional<Worth> cutoff{};
  std::optional<Worth> after{};  ///< Only cells with a greater bound: those behind another window.
  std::size_t most = SIZE_MAX;   ///< Cells that memory has room for.
  /// Whether the walk ends when there is no more room, instead of dropping the cells with the
  /// greatest bounds.
  bool ends_when_full = false;
  StopSignal stop{};
};

/// Walks the space of the question. What the plans of a cell hold is checked first, because bounds
/// of times cost lowering short programs. A search of few cells (`SearchQuestion::work_limit`)
/// keeps all of them, so that its limit does not depend on the device. Makes an evaluator for each
/// framework in `state`.
[[nodiscard]] CellWindow window_of(SearchState& state, const SearchInputs& inputs,
                                   const WindowLimits& limits);

/// The cells that `SearchQuestion::memory` has room for.
[[nodiscard]] std::size_t room_for_cells(Bytes memory);

}  // namespace headroom::plan
