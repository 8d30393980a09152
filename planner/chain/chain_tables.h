#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/chain/chain_steps.h"

namespace headroom::plan {

/// The cost of recomputation for every segment of a chain and every number of slots.
///
/// Model:   E(s, t, m) is the least forward time that is recomputed between forward of s and
///          backward of s with m slots, while the gradient of t waits. That is `optimal_chain`'s
///          C(s, t, m) minus the time of running everything once. With F(s, k) the forward of s ..
///          k-1, it is the least of
///            F(s, k) + E(k, t, m - a(k-1)) + E(s, k-1, m)  for any k in (s, t];
///            E(s+1, t, m - abar(s)).
///          It is infinite below the slots that a segment needs and 0 above those that store
///          everything; in between it never grows with m. Most of the sums are avoided:
///          - Segments of equal stages share one table.
///          - A segment that starts at s is never asked for fewer slots than the budget minus all
///            that the stages before s can store.
///          - Schedules that recompute more than `limit` are not searched. Stages that run once are
///            all stored when backward begins. So what does not fit into a fractional knapsack of
///            the budget must run again, and so must all of a segment that does not end the chain,
///            before its E counts. Few entries of a segment's table are small enough to be added to
///            that.
///          - A k is skipped if F alone is no less than the known cost. It is also skipped for a
///            block of slots if its terms at the end of the block are no less than the known cost
///            at the block's beginning. Coarse copies of the tables, with one number per block,
///            show this.
/// Units:   slots; times in single precision.
class ChainTables {
 public:
  /// Keeps a reference to `chain`.
  ChainTables(const Chain& chain, std::int64_t slots);

  /// A lower bound of the recomputation of every schedule.
  [[nodiscard]] double least_again() const;

  /// Fills all tables again. The answer does not depend on `threads`.
  void solve(double limit, int threads);

  /// Whether the whole chain can run in the slots with recomputation within the limit.
  [[nodiscard]] bool possible() const;
  /// The steps of the fastest schedule, which is reconstructed from the tables. Requires
  /// `possible()`.
  [[nodiscard]] std::vector<ChainStep> steps() const;

 private:
  /// E(s, t, .), from its least slot on. After its end it is constant.
  struct Segment {
    std::int64_t least = 0;  ///< Fewer slots are impossible or never asked for.
    std::vector<float> cost;
    std::vector<float> coarse;          ///< Costs at the multiples of a block.
    std::vector<std::uint16_t> splits;  ///< k - s at a block's beginning; 0: s keeps all.
    [[nodiscard]] float at(std::int64_t slots) const;
  };
  /// The terms of a split: dest[m] = min(dest[m], forward + after(m - shift) + before(m)).
  struct Terms {
    float forward = 0;
    const Segment* after = nullptr;
    std::int64_t shift = 0;
    const Segment* before = nullptr;
    std::int64_t begin = 0;  ///< Fewer slots are impossible.
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
  std::vector<std::uint32_t> origin_;  ///< For each segment, the first equal one.
  std::vector<std::int64_t> asked_;    ///< For each origin, the fewest slots that are asked for.
  std::vector<double> needs_;          ///< For each origin, the least recomputation elsewhere.
  double limit_ = 0;
  std::vector<double> forward_;  ///< Forward times summed up to each stage.
  std::vector<std::int64_t> saved_;
  std::vector<std::int64_t> held_;  ///< Most slots that the stages before each can store.
};

}  // namespace headroom::plan
