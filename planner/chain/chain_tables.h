#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/chain/chain_steps.h"

namespace headroom::plan {

/// What running parts of a chain again costs, for every segment of it and every number of slots.
///
/// Model:   E(s, t, m), the least time of forward that is run again from forward of s to backward
///          of s with m slots while the gradient of t waits: `optimal_chain`'s C(s, t, m) less what
///          running everything once takes. With F(s, k) the forward of s .. k-1, it is the least of
///            F(s, k) + E(k, t, m - a(k-1)) + E(s, k-1, m)  for any k in (s, t];
///            E(s+1, t, m - abar(s)).
///          Infinite below what a segment needs, 0 above what storing all of it takes; in between
///          it never grows with m. What keeps most of the sums from being made:
///          - segments of equal stages share one table;
///          - a segment that starts at s is never asked for less than the budget without all that
///            the stages before s can hold;
///          - schedules that run more than `limit` again are not sought. Stages that run once are
///            all stored when backward begins, so at least the rest of a fractional knapsack of
///            the budget runs again, and all of a segment whose end is not the chain's does before
///            its E counts. What a segment may add to that is less than its table mostly holds;
///          - a k whose F alone is no less than what is known already is out, and so is a k for a
///            block of slots at whose end its terms are no less than what is known at the block's
///            beginning (coarse copies of the tables, one number a block, tell).
/// Units:   slots; times in single precision.
class ChainTables {
 public:
  /// Keeps a reference to `chain`.
  ChainTables(const Chain& chain, std::int64_t slots);

  /// What every schedule runs again at least.
  [[nodiscard]] double least_again() const;

  /// Fills all tables anew. The answer does not depend on `threads`.
  void solve(double limit, int threads);

  /// Whether the whole chain can run in the slots, and no more than the limit of it again.
  [[nodiscard]] bool possible() const;
  /// The steps of the quickest schedule, found again by comparing. Requires `possible()`.
  [[nodiscard]] std::vector<ChainStep> steps() const;

 private:
  /// E(s, t, .), from its least slot on; constant behind its end.
  struct Segment {
    std::int64_t least = 0;  ///< Slots below: impossible, or never asked for.
    std::vector<float> cost;
    std::vector<float> coarse;          ///< At the multiples of a block.
    std::vector<std::uint16_t> splits;  ///< k - s at a block's beginning; 0: s keeps all.
    [[nodiscard]] float at(std::int64_t slots) const;
  };
  /// A split's terms: dest[m] = min(dest[m], forward + after(m - shift) + before(m)).
  struct Terms {
    float forward = 0;
    const Segment* after = nullptr;
    std::int64_t shift = 0;
    const Segment* before = nullptr;
    std::int64_t begin = 0;  ///< Impossible below.
  };
  struct Choice;
  class Filling;

  [[nodiscard]] std::size_t index(std::size_t s, std::size_t t) const { return s * count_ + t; }
  [[nodiscard]] const Segment& segment(std::size_t s, std::size_t t) const {
    return segments_[origin_[index(s, t)]];
  }
  void share_equal_segments();
  void find_needs();
  [[nodiscard]] float allowed(std::size_t s, std::size_t t) const;
  void fill(std::size_t s, std::size_t t);
  [[nodiscard]] Terms terms(std::size_t s, std::size_t t, std::size_t split) const;
  [[nodiscard]] std::int64_t least_all(std::size_t s, std::size_t t) const;
  [[nodiscard]] std::int64_t least_run(std::size_t s, std::size_t t) const;
  [[nodiscard]] std::int64_t ample(std::size_t s, std::size_t t) const;
  [[nodiscard]] Choice best(std::size_t s, std::size_t t, std::int64_t slots) const;
  void write(std::size_t s, std::size_t t, std::int64_t slots, std::vector<ChainStep>& steps) const;

  const Chain& chain_;
  std::int64_t slots_;
  std::size_t count_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> origin_;  ///< Of each segment, the first that is equal.
  std::vector<std::int64_t> asked_;    ///< Of each origin, the fewest slots that it is asked for.
  std::vector<double> needs_;          ///< Of each origin, what is run again elsewhere at least.
  double limit_ = 0;
  std::vector<double> forward_;  ///< Sums up to each stage.
  std::vector<std::int64_t> saved_;
  std::vector<std::int64_t> held_;  ///< The most that the stages before each can hold.
};

}  // namespace headroom::plan
