#include "planner/search/front_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/search/in_parallel.h"

namespace headroom::plan {
namespace {

/// Weight of the logarithm of the time in each order of the cells. The rest is the weight of the
/// logarithm of the floor.
constexpr std::array<double, 5> kWeights = {1, 0, 0.5, 0.75, 0.25};

/// One search for the front.
class FrontPass {
 public:
  FrontPass(const SearchState& state, const std::vector<BoundedCell>& cells)
      : state_(state), cells_(cells), floors_(cells.size()), done_(cells.size()) {
    if (state.question.pruning.memory_floor) {
      in_parallel(cells.size(), state.question.threads, [&](std::size_t i) {
        floors_[i] = state.of(cells[i].cell).cell_floor(cells[i].cell, kMostBytes);
      });
    }
    for (const double weight : kWeights) {
      order_by(weight);
    }
  }

  Result<FrontAnswer> operator()() {
    const SearchQuestion& question = state_.question;
    bool stopped = false;
    for (std::vector<std::size_t> taken = next(); !taken.empty(); taken = next()) {
      if (Status status = wave(taken); !status) {
        return std::move(status).error();
      }
      tell();
      stopped =
          question.stop.asked() || (question.work_limit > 0 && visited_ >= question.work_limit);
      if (stopped) {
        break;
      }
    }
    finish();
    return std::move(answer_);
  }

 private:
  struct Order {
    std::vector<std::size_t> cells;
    std::size_t at = 0;
  };

  void order_by(double weight) {
    std::vector<double> keys(cells_.size());
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const auto floor = static_cast<double>(std::max<std::int64_t>(floors_[i].value(), 1));
      keys[i] = weight * std::log(cells_[i].seconds) + (1 - weight) * std::log(floor);
    }
    Order order{.cells = std::vector<std::size_t>(cells_.size()), .at = 0};
    std::iota(order.cells.begin(), order.cells.end(), std::size_t{0});
    std::ranges::stable_sort(order.cells, {}, [&](std::size_t i) { return keys[i]; });
    orders_.push_back(std::move(order));
  }

  /// Whether the bounds exclude all plans of the cell from the front.
  [[nodiscard]] bool is_beaten(std::size_t i) const {
    const Pruning& pruning = state_.question.pruning;
    const BoundedCell& cell = cells_[i];
    if (floors_[i] > capacity_of(state_.question, cell.cell.plan)) {
      return true;
    }
    return pruning.time_bound &&
           floors_[i] > front_.ceiling(pace_of(cell.cell.plan, cell.seconds), cell.cell.plan.world,
                                       cell.first_number);
  }

  /// The cells of the next wave.
  [[nodiscard]] std::vector<std::size_t> next() {
    const std::uint64_t limit = state_.question.work_limit;
    const std::uint64_t most = limit > 0 ? std::min<std::uint64_t>(kWave, limit - visited_) : kWave;
    std::vector<std::size_t> taken;
    for (std::size_t empty = 0; taken.size() < most && empty < orders_.size();) {
      Order& order = orders_[turn_++ % orders_.size()];
      while (order.at < order.cells.size() && done_[order.cells[order.at]]) {
        ++order.at;
      }
      if (order.at == order.cells.size()) {
        ++empty;
        continue;
      }
      empty = 0;
      const std::size_t cell = order.cells[order.at];
      done_[cell] = true;
      if (!is_beaten(cell)) {
        taken.push_back(cell);
      }
    }
    visited_ += taken.size();
    return taken;
  }

  Status wave(const std::vector<std::size_t>& taken) {
    std::vector<std::optional<Result<CellFront>>> answers(taken.size());
    in_parallel(taken.size(), state_.question.threads, [&](std::size_t i) {
      const BoundedCell& cell = cells_[taken[i]];
      answers[i] = state_.question.stop.asked()
                       ? Result<CellFront>(CellFront{.plans = {}, .evaluated = 0, .whole = false})
                       : state_.of(cell.cell).front(state_, cell, floors_[taken[i]], front_);
    });
    std::vector<RatedPlan> found;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!*answers[i]) {
        return answers[i]->error();
      }
      CellFront cell = std::move(*answers[i]).value();
      answer_.evaluated += cell.evaluated;
      done_[taken[i]] = cell.whole;
      std::ranges::move(cell.plans, std::back_inserter(found));
    }
    front_.add(std::move(found));
    return ok();
  }

  void tell() const {
    if (!state_.question.progress) {
      return;
    }
    const auto done = static_cast<std::uint64_t>(std::ranges::count(done_, true));
    const std::vector<RatedPlan>& plans = front_.plans();
    state_.question.progress(
        {.evaluated = answer_.evaluated,
         .cells = cells_.size(),
         .cells_done = done,
         .best_seconds = plans.empty() ? 0 : plans.front().time.total().value(),
         .bound = 0,
         .gap = 0,
         .front = plans.size()});
  }

  void finish() {
    answer_.whole = true;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (!done_[i] && !is_beaten(i)) {
        answer_.whole = false;
        const BoundedCell& cell = cells_[i];
        answer_.gap = std::max(answer_.gap, front_.distance(pace_of(cell.cell.plan, cell.seconds),
                                                            floors_[i], cell.cell.plan.world));
      }
    }
    answer_.plans = front_.take();
  }

  const SearchState& state_;
  const std::vector<BoundedCell>& cells_;
  std::vector<Bytes> floors_;
  std::vector<bool> done_;  ///< Looked into or excluded.
  std::vector<Order> orders_;
  std::size_t turn_ = 0;
  std::uint64_t visited_ = 0;
  Front front_;
  FrontAnswer answer_;
};

}  // namespace

Result<FrontAnswer> search_front(const SearchState& state, const std::vector<BoundedCell>& cells) {
  return FrontPass(state, cells)();
}

}  // namespace headroom::plan
