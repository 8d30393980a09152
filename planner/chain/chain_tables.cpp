#include "planner/chain/chain_tables.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

namespace headroom::plan {
namespace {

using Kind = ChainStep::Kind;

constexpr float kImpossible = std::numeric_limits<float>::infinity();
/// Slots that are skipped together. A coarse table has one number for each such block.
constexpr std::int64_t kBlock = 64;
/// Blocks that are compared together.
constexpr std::size_t kStripe = 16;

std::size_t unsigned_of(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// Lowers `dest` to `constant + x + y` where the latter is less. Written as simple loops, so that
/// the compiler vectorises them.
void lower_both(float* dest, const float* x, const float* y, float constant, std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i) {
    const float sum = constant + x[i] + y[i];
    dest[i] = sum < dest[i] ? sum : dest[i];
  }
}
void lower_one(float* dest, const float* x, float constant, std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i) {
    const float sum = constant + x[i];
    dest[i] = sum < dest[i] ? sum : dest[i];
  }
}
void lower_none(float* dest, float constant, std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i) {
    dest[i] = constant < dest[i] ? constant : dest[i];
  }
}

/// Stages in descending order of forward time per slot that stores it.
std::vector<std::size_t> by_density(const Chain& chain) {
  std::vector<std::size_t> order(chain.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return chain[a].forward * static_cast<double>(chain[b].saved) >
           chain[b].forward * static_cast<double>(chain[a].saved);
  });
  return order;
}

/// The most forward time of stages outside [from, to) whose results `slots` can store: a fractional
/// knapsack.
double most_kept(const Chain& chain, const std::vector<std::size_t>& order, std::int64_t slots,
                 std::pair<std::size_t, std::size_t> without) {
  double kept = 0;
  for (const std::size_t i : order) {
    if (i >= without.first && i < without.second) {
      continue;
    }
    const ChainStage& stage = chain[i];
    if (stage.saved > slots) {
      return kept + stage.forward * static_cast<double>(slots) / static_cast<double>(stage.saved);
    }
    kept += stage.forward;
    slots -= stage.saved;
  }
  return kept;
}

}  // namespace

struct ChainTables::Choice {
  float cost = kImpossible;
  std::size_t split = 0;  ///< s: store all of s; else k.
};

float ChainTables::Segment::at(std::int64_t slots) const {
  if (slots < least || cost.empty()) {
    return kImpossible;
  }
  return cost[unsigned_of(std::min(slots - least, static_cast<std::int64_t>(cost.size()) - 1))];
}

/// The table of one segment while it is filled: `cost` from slot `least` to slot `end`.
class ChainTables::Filling {
 public:
  Filling(Segment& into, std::int64_t end, std::int64_t slots, float allowed)
      : into_(into), end_(end), blocks_(unsigned_of(slots / kBlock) + 1), allowed_(allowed) {
    into_.cost.assign(unsigned_of(end - into.least + 1), kImpossible);
    into_.splits.assign(blocks_, 0);
    known_.assign(blocks_ + kStripe, -kImpossible);
    last_block_ = unsigned_of(end / kBlock);
    std::fill(known_.begin() + into.least / kBlock, known_.begin() + end / kBlock + 1,
              std::nextafter(allowed_, kImpossible));
    used_ = last_block_ + 1;
  }

  /// Lowers all slots without checking the bounds first.
  void lower_all(const Terms& terms, std::uint16_t split) {
    lower(terms, into_.least, end_, split);
  }

  /// The same for one block.
  void lower_block(const Terms& terms, std::size_t block, std::uint16_t split) {
    const auto first = static_cast<std::int64_t>(block) * kBlock;
    lower(terms, std::max(first, into_.least), std::min(first + kBlock - 1, end_), split);
  }

  /// Lowers the blocks in which `terms` may be below the known costs. Returns false if no later
  /// split can lower anything; later splits have a `forward` that is no less.
  bool lower_where_less(const Terms& terms, std::uint16_t split) {
    while (used_ > 0 && known_[used_ - 1] <= terms.forward) {
      --used_;
    }
    if (terms.after->cost.empty() || terms.before->cost.empty()) {
      return used_ > 0;
    }
    const std::size_t first = block_of(std::max(terms.begin, into_.least));
    // Index of the coarse number at or above the last slot of block b: (b + 1) block - 1 - shift.
    const std::int64_t lag = (terms.shift + 1) / kBlock;
    for (std::size_t stripe = first; stripe < used_; stripe += kStripe) {
      const std::size_t length = std::min(kStripe, used_ - stripe);
      if (!any_less(terms, stripe, length, lag)) {
        continue;
      }
      for (std::size_t block = stripe; block < stripe + length; ++block) {
        if (least_in(terms, block, lag) < known_[block]) {
          lower_block(terms, block, split);
        }
      }
    }
    return used_ > 0;
  }

  /// Drops useless slots at the front and repeated values at the end, and makes the coarse table.
  void finish() {
    // The remaining costs never increase with slots.
    std::vector<float>& cost = into_.cost;
    if (cost.back() > allowed_) {
      into_ = Segment{};
      return;
    }
    const auto useful = std::ranges::partition_point(cost, [&](float c) { return c > allowed_; });
    const auto last = std::ranges::partition_point(cost, [&](float c) { return c > cost.back(); });
    into_.least += useful - cost.begin();
    cost = std::vector<float>(useful, last + 1);
    into_.coarse.resize(blocks_ + 1);
    for (std::size_t block = 0; block < into_.coarse.size(); ++block) {
      into_.coarse[block] = into_.at(static_cast<std::int64_t>(block) * kBlock);
    }
  }

 private:
  static std::size_t block_of(std::int64_t slots) { return unsigned_of(slots / kBlock); }

  /// A lower bound of `terms` in `block`.
  [[nodiscard]] static float least_in(const Terms& terms, std::size_t block, std::int64_t lag) {
    const std::int64_t after = static_cast<std::int64_t>(block) + 1 - lag;
    return after < 0 ? kImpossible
                     : terms.forward + terms.after->coarse[unsigned_of(after)] +
                           terms.before->coarse[block + 1];
  }
  [[nodiscard]] bool any_less(const Terms& terms, std::size_t first, std::size_t length,
                              std::int64_t lag) const {
    const std::int64_t from = static_cast<std::int64_t>(first) + 1 - lag;
    if (from < 0) {
      return true;
    }
    const float* const after = terms.after->coarse.data() + from;
    const float* const before = terms.before->coarse.data() + first + 1;
    const float* const known = known_.data() + first;
    int any = 0;
    for (std::size_t i = 0; i < length; ++i) {
      any |= terms.forward + after[i] + before[i] < known[i] ? 1 : 0;
    }
    return any != 0;
  }

  void lower(const Terms& terms, std::int64_t begin, std::int64_t end, std::uint16_t split) {
    const Segment& x = *terms.after;
    const Segment& y = *terms.before;
    if (x.cost.empty() || y.cost.empty()) {
      return;
    }
    const std::int64_t x_end = x.least + static_cast<std::int64_t>(x.cost.size()) - 1 + terms.shift;
    const std::int64_t y_end = y.least + static_cast<std::int64_t>(y.cost.size()) - 1;
    const std::int64_t start = std::max({begin, terms.begin, x.least + terms.shift, y.least});
    for (std::int64_t from = start; from <= end;) {
      const bool x_varies = from <= x_end;
      const bool y_varies = from <= y_end;
      std::int64_t to = x_varies ? std::min(end, x_end) : end;
      to = y_varies ? std::min(to, y_end) : to;
      const std::int64_t length = to - from + 1;
      float* const dest = into_.cost.data() + (from - into_.least);
      const std::int64_t x_at = from - terms.shift - x.least;
      const std::int64_t y_at = from - y.least;
      if (x_varies && y_varies) {
        lower_both(dest, x.cost.data() + x_at, y.cost.data() + y_at, terms.forward, length);
      } else if (x_varies) {
        lower_one(dest, x.cost.data() + x_at, terms.forward + y.cost.back(), length);
      } else if (y_varies) {
        lower_one(dest, y.cost.data() + y_at, terms.forward + x.cost.back(), length);
      } else {
        lower_none(dest, terms.forward + x.cost.back() + y.cost.back(), length);
      }
      from = to + 1;
    }
    note(block_of(std::max(start, into_.least)), split);
    for (std::size_t block = block_of(std::max(start, into_.least)) + 1;
         block <= last_block_ && static_cast<std::int64_t>(block) * kBlock <= end; ++block) {
      note(block, split);
    }
  }

  /// Records the cost at the first slot of a block.
  void note(std::size_t block, std::uint16_t split) {
    const std::int64_t first = std::max(static_cast<std::int64_t>(block) * kBlock, into_.least);
    if (first > end_) {
      return;
    }
    const float now = into_.cost[unsigned_of(first - into_.least)];
    if (now < known_[block]) {
      known_[block] = now;
      into_.splits[block] = split;
    }
  }

  Segment& into_;
  std::int64_t end_;
  std::size_t blocks_;
  float allowed_;
  std::size_t last_block_ = 0;
  std::size_t used_ = 0;      ///< Later blocks cost less than any later split's forward.
  std::vector<float> known_;  ///< Cost at the first slot of each block; an upper bound in it.
};

ChainTables::ChainTables(const Chain& chain, std::int64_t slots)
    : chain_(chain),
      slots_(slots),
      count_(chain.size()),
      origin_(count_ * count_),
      needs_(count_ * count_, std::numeric_limits<double>::infinity()),
      forward_(count_ + 1),
      saved_(count_ + 1),
      held_(count_ + 1) {
  for (std::size_t i = 0; i < count_; ++i) {
    forward_[i + 1] = forward_[i] + chain[i].forward;
    saved_[i + 1] = saved_[i] + chain[i].saved;
    held_[i + 1] = held_[i] + std::max(chain[i].saved, chain[i].output);
  }
  slots_ = ample(0, count_ - 1);  // More slots change nothing, and tables have the budget's length.
  asked_.assign(count_ * count_, slots_);
  share_equal_segments();
  find_needs();
}

double ChainTables::least_again() const {
  return forward_[count_] - most_kept(chain_, by_density(chain_), slots_, {0, 0});
}

void ChainTables::find_needs() {
  const std::vector<std::size_t> order = by_density(chain_);
  for (std::size_t s = 0; s < count_; ++s) {
    for (std::size_t t = s; t < count_; ++t) {
      const double inside = forward_[t + 1] - forward_[s];
      const double again = t + 1 < count_ ? inside : 0;
      const double outside =
          forward_[count_] - inside - most_kept(chain_, order, slots_, {s, t + 1});
      double& need = needs_[origin_[index(s, t)]];
      need = std::min(need, again + outside);
    }
  }
}

/// The largest recomputation of the segment that a schedule within the limit can have.
float ChainTables::allowed(std::size_t s, std::size_t t) const {
  constexpr double kRounding = 1e-5;  // Rounding of sums in single precision.
  return static_cast<float>(limit_ - needs_[index(s, t)] + kRounding * (forward_[count_] + limit_));
}

void ChainTables::share_equal_segments() {
  // How many stages from s on equal those from an earlier r on. For each s, the r with the longest
  // match.
  std::vector<std::size_t> equal(count_ + 1, 0);  // [r]: first for s + 1, then for s.
  std::vector<std::size_t> most(count_, 0);
  std::vector<std::size_t> where(count_, 0);
  for (std::size_t s = count_; s-- > 0;) {
    for (std::size_t r = 0; r < s; ++r) {
      equal[r] = chain_[s] == chain_[r] ? equal[r + 1] + 1 : 0;
      if (equal[r] > most[s]) {
        most[s] = equal[r];
        where[s] = r;
      }
    }
  }
  for (std::size_t s = 0; s < count_; ++s) {
    for (std::size_t t = s; t < count_; ++t) {
      const bool is_copy = t - s < most[s];
      const std::size_t origin =
          is_copy ? origin_[index(where[s], where[s] + (t - s))] : index(s, t);
      origin_[index(s, t)] = static_cast<std::uint32_t>(origin);
      asked_[origin] = std::min(asked_[origin], std::max<std::int64_t>(slots_ - held_[s], 0));
    }
  }
}

void ChainTables::solve(double limit, int threads) {
  limit_ = limit;
  segments_ = std::vector<Segment>(count_ * count_);
  for (std::size_t length = 0; length < count_; ++length) {
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
      for (std::size_t s = next++; s + length < count_; s = next++) {
        if (origin_[index(s, s + length)] == index(s, s + length)) {
          fill(s, s + length);
        }
      }
    };
    std::vector<std::jthread> others;
    for (int i = 1; i < threads && length + 1 < count_; ++i) {
      others.emplace_back(run);
    }
    run();
  }
}

bool ChainTables::possible() const {
  return segment(0, count_ - 1).at(slots_) < kImpossible;
}

std::vector<ChainStep> ChainTables::steps() const {
  std::vector<ChainStep> steps;
  write(0, count_ - 1, slots_, steps);
  return steps;
}

void ChainTables::write(std::size_t s, std::size_t t, std::int64_t slots,
                        std::vector<ChainStep>& steps) const {
  const Choice choice = best(s, t, slots);
  if (choice.split == s) {
    steps.push_back({Kind::kForwardAll, s});
    if (t > s) {
      write(s + 1, t, slots - chain_[s].saved, steps);
    }
    steps.push_back({Kind::kBackward, s});
    return;
  }
  steps.push_back({Kind::kForwardKeep, s});
  for (std::size_t i = s + 1; i < choice.split; ++i) {
    steps.push_back({Kind::kForwardDrop, i});
  }
  write(choice.split, t, slots - chain_[choice.split - 1].output, steps);
  write(s, choice.split - 1, slots, steps);
}

/// The fewest slots with which stage s can store everything.
std::int64_t ChainTables::least_all(std::size_t s, std::size_t t) const {
  const ChainStage& stage = chain_[s];
  return std::max(chain_[t].gradient + stage.saved + stage.forward_transient,
                  stage.gradient + stage.saved + stage.backward_transient);
}

/// The fewest slots with which forward can run from s to the last stage before t.
std::int64_t ChainTables::least_run(std::size_t s, std::size_t t) const {
  std::int64_t least = chain_[s].output + chain_[s].forward_transient;
  for (std::size_t i = s + 1; i < t; ++i) {
    least = std::max(least, chain_[i - 1].output + chain_[i].output + chain_[i].forward_transient);
  }
  return least + chain_[t].gradient;
}

/// With at least this many slots, nothing has to run again.
std::int64_t ChainTables::ample(std::size_t s, std::size_t t) const {
  std::int64_t most = 0;
  for (std::size_t i = s; i <= t; ++i) {
    most = std::max(most, least_all(i, t) + saved_[i] - saved_[s]);
  }
  return std::min(most, slots_);
}

ChainTables::Terms ChainTables::terms(std::size_t s, std::size_t t, std::size_t split) const {
  return {.forward = static_cast<float>(forward_[split] - forward_[s]),
          .after = &segment(split, t),
          .shift = chain_[split - 1].output,
          .before = &segment(s, split - 1)};
}

ChainTables::Choice ChainTables::best(std::size_t s, std::size_t t, std::int64_t slots) const {
  Choice choice{.cost = kImpossible, .split = s};
  if (slots >= least_all(s, t)) {
    choice.cost = t > s ? segment(s + 1, t).at(slots - chain_[s].saved) : 0.0F;
  }
  if (t > s && slots >= least_run(s, t)) {
    for (std::size_t split = s + 1; split <= t; ++split) {
      const Terms way = terms(s, t, split);
      const float cost = way.forward + way.after->at(slots - way.shift) + way.before->at(slots);
      if (cost < choice.cost) {
        choice = {cost, split};
      }
    }
  }
  return choice;
}

void ChainTables::fill(std::size_t s, std::size_t t) {
  const std::int64_t all = least_all(s, t);
  const std::int64_t run = t > s ? least_run(s, t) : all;
  Segment& into = segments_[index(s, t)];
  into.least = std::max(std::min(all, run), asked_[index(s, t)]);
  const float most = allowed(s, t);
  if (into.least > slots_ || most < 0) {
    return;
  }
  Filling filling(into, std::max(ample(s, t), into.least), slots_, most);
  const Segment nothing{.least = 0, .cost = {0.0F}, .coarse = {}, .splits = {}};
  filling.lower_all({.forward = 0,
                     .after = t > s ? &segment(s + 1, t) : &nothing,
                     .shift = t > s ? chain_[s].saved : 0,
                     .before = &nothing,
                     .begin = all},
                    0);
  if (t > s) {
    // First the best splits of the neighbours: the lower the known costs, the more blocks are
    // skipped.
    for (const auto& [other, offset] :
         {std::pair{&segment(s + 1, t), 1}, std::pair{&segment(s, t - 1), 0}}) {
      for (std::size_t block = 0; block < other->splits.size(); ++block) {
        const std::size_t split = s + other->splits[block] + static_cast<std::size_t>(offset);
        if (other->splits[block] > 0) {
          Terms way = terms(s, t, split);
          way.begin = run;
          filling.lower_block(way, block, static_cast<std::uint16_t>(split - s));
        }
      }
    }
    for (std::size_t split = s + 1; split <= t; ++split) {
      Terms way = terms(s, t, split);
      way.begin = run;
      if (!filling.lower_where_less(way, static_cast<std::uint16_t>(split - s))) {
        break;
      }
    }
  }
  filling.finish();
}

}  // namespace headroom::plan
