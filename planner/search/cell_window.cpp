#include "planner/search/cell_window.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "planner/search/in_parallel.h"

namespace headroom::plan {
namespace {

/// One walk through a space.
class WindowWalk {
 public:
  WindowWalk(SearchState& state, const SearchInputs& inputs, const WindowLimits& limits)
      : state_(state), inputs_(inputs), question_(inputs.question), limits_(limits) {}

  CellWindow operator()() {
    window_.left_out =
        walk_cells(question_.space, [this](Cell cell) { return take(std::move(cell)); });
    add_batch();
    if (window_.left) {
      window_.last = ceiling_;
      std::ranges::sort(window_.cells, {}, &BoundedCell::first_number);
    }
    return std::move(window_);
  }

 private:
  /// Cells whose bounds are found in parallel.
  [[nodiscard]] std::size_t batch_size() const {
    constexpr std::size_t kMost = 4096;
    return std::clamp<std::size_t>(limits_.most / 4, 1, kMost);
  }

  bool take(Cell cell) {
    std::unique_ptr<Evaluator>& evaluator = state_.evaluators[cell.framework];
    if (evaluator == nullptr) {
      evaluator = cell.framework->evaluator(inputs_);
    }
    first_numbers_.push_back(window_.plans);
    window_.plans += cell.choices;
    ++window_.walked;
    batch_.push_back(std::move(cell));
    if (batch_.size() < batch_size()) {
      return true;
    }
    add_batch();
    window_.cut = window_.cut || limits_.stop.asked() || (limits_.ends_when_full && is_full());
    return !window_.cut;
  }

  [[nodiscard]] bool is_full() const { return window_.cells.size() >= limits_.most; }

  void add_batch() {
    const bool drops = question_.pruning.memory_floor && question_.work_limit == 0;
    std::vector<std::optional<BoundedCell>> bounded(batch_.size());
    std::atomic<bool> skipped = false;
    in_parallel(batch_.size(), question_.threads, [&](std::size_t i) {
      Cell& cell = batch_[i];
      if (limits_.stop.asked()) {
        skipped = true;
      } else if (!drops || state_.of(cell).held_floor(cell) <= capacity_of(question_, cell.plan)) {
        bounded[i] = bound_cell(state_, std::move(cell));
        bounded[i]->first_number = first_numbers_[i];
        bounded[i]->bound.number = first_numbers_[i];
      }
    });
    for (std::optional<BoundedCell>& one : bounded) {
      if (one && is_wanted(*one)) {
        keep(*std::move(one));
      }
    }
    window_.cut = window_.cut || skipped;
    batch_.clear();
    first_numbers_.clear();
    if (is_full() && !limits_.ends_when_full) {
      drop_greatest();
    }
    tell();
  }

  [[nodiscard]] bool is_wanted(const BoundedCell& cell) const {
    const bool beaten =
        limits_.cutoff && question_.pruning.time_bound && least_of(cell) > *limits_.cutoff;
    return !beaten && (!limits_.after || cell.bound > *limits_.after);
  }

  /// The least worth of a replay of the cell's plans.
  [[nodiscard]] Worth least_of(const BoundedCell& cell) const {
    const double error = state_.of(cell.cell).time_error().of_space;
    return scaled_worth(question_, cell.bound, 1 / (1 + error));
  }

  void keep(BoundedCell cell) {
    if (ceiling_ && cell.bound > *ceiling_) {
      leave(cell);
    } else {
      window_.cells.push_back(std::move(cell));
    }
  }

  void leave(const BoundedCell& cell) {
    const Worth least = least_of(cell);
    window_.left = window_.left ? std::min(*window_.left, least) : least;
  }

  /// Keeps half of the room, so that dropping costs little. From then on, no cell is taken whose
  /// bound is above those that are kept, so that the next window begins where this one ends.
  void drop_greatest() {
    std::vector<BoundedCell>& cells = window_.cells;
    const std::size_t half = std::max<std::size_t>(1, limits_.most / 2);
    if (cells.size() <= half) {
      return;
    }
    const auto greatest = cells.begin() + static_cast<std::ptrdiff_t>(half - 1);
    std::ranges::nth_element(cells, greatest, {}, &BoundedCell::bound);
    ceiling_ = greatest->bound;
    std::for_each(greatest + 1, cells.end(), [this](const BoundedCell& cell) { leave(cell); });
    cells.erase(greatest + 1, cells.end());
  }

  void tell() const {
    if (question_.progress) {
      question_.progress({.listing = true, .cells = window_.walked, .gap = 1});
    }
  }

  SearchState& state_;
  const SearchInputs& inputs_;
  const SearchQuestion& question_;
  const WindowLimits& limits_;
  std::vector<Cell> batch_;
  std::vector<std::uint64_t> first_numbers_;  ///< The first plans of `batch_`.
  std::optional<Worth> ceiling_;              ///< The greatest bound that is taken.
  CellWindow window_;
};

}  // namespace

CellWindow window_of(SearchState& state, const SearchInputs& inputs, const WindowLimits& limits) {
  return WindowWalk(state, inputs, limits)();
}

std::size_t room_for_cells(Bytes memory) {
  // Plans with their framework's options and the queues of the search, measured: DeepSeek-V3 on
  // 2,048 GPUs. The rest of the memory is for what the search lowers and remembers.
  constexpr std::int64_t kBytesOfCell = 1536;
  return static_cast<std::size_t>(
      std::max<std::int64_t>(memory.value() / 4 * 3 / kBytesOfCell, 64));
}

}  // namespace headroom::plan
