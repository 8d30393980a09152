#include "planner/placement/placement.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::plan {
namespace {

constexpr int kHalvings = 60;  ///< Any multiplier gives a bound; the search needs a good one.
/// Sums in another order may differ in their last digits.
constexpr double kBelow = 1 - 1e-12;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Multipliers of a lower bound on seconds.
struct Multipliers {
  double again = 1;     ///< Of backward and what runs again: 1 - v.
  double copy = 0;      ///< Of copies: u + v.
  double bytes = 0;     ///< Of what all passes keep: mu.
  double constant = 0;  ///< Of forward and backward, less mu times the bytes to spare.
  [[nodiscard]] double weight(const LayerOption& option, std::int64_t passes) const {
    return again * option.again + copy * option.copy +
           bytes * static_cast<double>(option.kept) * static_cast<double>(passes);
  }
};

/// Placements of options whose `fixed` is within a limit.
class Branching {
 public:
  Branching(const PlacementQuestion& question, std::int64_t fixed)
      : question_(question), spare_(question.budget - fixed) {
    for (const LayerKind& kind : question.kinds) {
      std::vector<std::size_t>& allowed = allowed_.emplace_back();
      for (std::size_t i = 0; i < kind.options.size(); ++i) {
        if (kind.options[i].fixed <= fixed) {
          allowed.push_back(i);
        }
      }
      possible_ = possible_ && (!allowed.empty() || kind.layers == 0);
      counts_.emplace_back(kind.options.size(), 0);
    }
  }

  /// Puts what beats `best` into it.
  void run(std::optional<Placement>& best) {
    if (spare_ < 0 || !possible_) {
      return;
    }
    best_ = &best;
    make_bounds();
    descend(0, 0, question_.kinds.empty() ? 0 : question_.kinds[0].layers, {});
  }

 private:
  struct Sums {
    double again = 0;
    double copy = 0;
    std::int64_t kept = 0;  ///< Of one pass.
    [[nodiscard]] Sums plus(const LayerOption& option, std::int64_t count) const {
      const auto times = static_cast<double>(count);
      return {again + times * option.again, copy + times * option.copy, kept + count * option.kept};
    }
  };
  /// One bound: multipliers, and the least weight of the layers that are left.
  struct Bound {
    Multipliers with;
    std::vector<std::vector<double>> least;  ///< Of a layer of a kind with this option or later.
    std::vector<double> later;               ///< Of all layers of this kind and those behind.
  };

  [[nodiscard]] const LayerOption& option(std::size_t kind, std::size_t place) const {
    return question_.kinds[kind].options[allowed_[kind][place]];
  }

  /// Bytes beyond the budget that the layers take if each has the option of the least weight.
  [[nodiscard]] double bytes_over(const Multipliers& with) const {
    double over = -static_cast<double>(spare_);
    for (std::size_t kind = 0; kind < question_.kinds.size(); ++kind) {
      std::pair<double, std::int64_t> least{kNever, 0};
      for (std::size_t place = 0; place < allowed_[kind].size(); ++place) {
        const LayerOption& one = option(kind, place);
        least = std::min(least, std::pair(with.weight(one, question_.passes), one.kept));
      }
      over += static_cast<double>(question_.kinds[kind].layers) *
              static_cast<double>(least.second * question_.passes);
    }
    return over;
  }

  /// The bound is concave in mu: the best has as many bytes as the budget.
  [[nodiscard]] Multipliers best_multipliers(double u, double v) const {
    Multipliers with{.again = 1 - v, .copy = u + v};
    double low = 0;
    double high = 1e-15;  // Seconds a byte: far below any link's or memory's.
    for (int i = 0; i < kHalvings && bytes_over(with) > 0; ++i) {
      low = with.bytes;
      with.bytes = high;
      high *= 2;
    }
    high = with.bytes;
    for (int i = 0; i < kHalvings && high > 0; ++i) {
      with.bytes = (low + high) / 2;
      (bytes_over(with) > 0 ? low : high) = with.bytes;
    }
    with.bytes = high;
    with.constant = (1 - u) * question_.forward + (1 - v) * question_.backward -
                    with.bytes * static_cast<double>(spare_);
    return with;
  }

  void make_bounds() {
    for (const double u : {0.0, 0.5, 1.0}) {
      for (const double v : {0.0, 0.5, 1.0}) {
        Bound bound{.with = best_multipliers(u, v), .least = {}, .later = {}};
        bound.later.assign(question_.kinds.size() + 1, 0);
        for (std::size_t kind = question_.kinds.size(); kind-- > 0;) {
          std::vector<double> least(allowed_[kind].size() + 1, kNever);
          for (std::size_t place = allowed_[kind].size(); place-- > 0;) {
            least[place] = std::min(least[place + 1],
                                    bound.with.weight(option(kind, place), question_.passes));
          }
          const auto layers = static_cast<double>(question_.kinds[kind].layers);
          bound.later[kind] = bound.later[kind + 1] + (layers > 0 ? layers * least[0] : 0);
          bound.least.insert(bound.least.begin(), std::move(least));
        }
        bounds_.push_back(std::move(bound));
      }
    }
  }

  [[nodiscard]] double seconds(const Sums& sums) const {
    return std::max(question_.forward, sums.copy) +
           std::max(question_.backward + sums.again, sums.copy);
  }

  /// No placement with `sums` and `left` layers of `kind` with option `place` or later takes less.
  [[nodiscard]] double least_seconds(std::size_t kind, std::size_t place, std::int64_t left,
                                     const Sums& sums) const {
    double most = seconds(sums);
    for (const Bound& bound : bounds_) {
      const double rest = left > 0 ? static_cast<double>(left) * bound.least[kind][place] : 0;
      most = std::max(most, bound.with.constant + bound.with.again * sums.again +
                                bound.with.copy * sums.copy +
                                bound.with.bytes * static_cast<double>(sums.kept) *
                                    static_cast<double>(question_.passes) +
                                rest + bound.later[kind + 1]);
    }
    return most;
  }

  [[nodiscard]] std::int64_t least_kept(std::size_t kind, std::size_t place, std::int64_t left,
                                        const Sums& sums) const {
    std::int64_t kept = sums.kept;
    for (std::size_t at = kind; at < question_.kinds.size(); ++at) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (std::size_t i = at == kind ? place : 0; i < allowed_[at].size(); ++i) {
        least = std::min(least, option(at, i).kept);
      }
      const std::int64_t layers = at == kind ? left : question_.kinds[at].layers;
      kept += layers > 0 ? layers * least : 0;
    }
    return kept * question_.passes;
  }

  void descend(std::size_t kind, std::size_t place, std::int64_t left, const Sums& sums) {
    if (kind == question_.kinds.size()) {
      settle();
      return;
    }
    if (left == 0) {
      const std::size_t next = kind + 1;
      descend(next, 0, next < question_.kinds.size() ? question_.kinds[next].layers : 0, sums);
      return;
    }
    if (place == allowed_[kind].size() || least_kept(kind, place, left, sums) > spare_ ||
        (*best_ && least_seconds(kind, place, left, sums) >= (*best_)->seconds * kBelow)) {
      return;
    }
    const bool last = place + 1 == allowed_[kind].size();
    std::int64_t& count = counts_[kind][allowed_[kind][place]];
    for (count = left; count >= (last ? left : 0); --count) {
      descend(kind, place + 1, left - count, sums.plus(option(kind, place), count));
    }
    count = 0;
  }

  void settle() {
    Placement found = placement_of(question_, counts_);
    if (found.bytes > question_.budget) {
      return;
    }
    if (!*best_ || found.seconds < (*best_)->seconds) {
      *best_ = std::move(found);
    }
  }

  const PlacementQuestion& question_;
  std::int64_t spare_;
  bool possible_ = true;
  std::vector<std::vector<std::size_t>> allowed_;  ///< Options, by kind.
  std::vector<std::vector<std::int64_t>> counts_;
  std::vector<Bound> bounds_;
  std::optional<Placement>* best_ = nullptr;
};

}  // namespace

Placement placement_of(const PlacementQuestion& question,
                       std::vector<std::vector<std::int64_t>> counts) {
  Placement placement{.counts = std::move(counts), .seconds = 0, .bytes = 0};
  double again = 0;
  double copy = 0;
  std::int64_t fixed = 0;
  for (std::size_t kind = 0; kind < question.kinds.size(); ++kind) {
    for (std::size_t i = 0; i < question.kinds[kind].options.size(); ++i) {
      const LayerOption& option = question.kinds[kind].options[i];
      const std::int64_t count = placement.counts[kind][i];
      again += static_cast<double>(count) * option.again;
      copy += static_cast<double>(count) * option.copy;
      placement.bytes += question.passes * count * option.kept;
      fixed = count > 0 ? std::max(fixed, option.fixed) : fixed;
    }
  }
  placement.bytes += fixed;
  placement.seconds = std::max(question.forward, copy) + std::max(question.backward + again, copy);
  return placement;
}

std::optional<Placement> best_placement(const PlacementQuestion& question) {
  std::set<std::int64_t> limits{0};  // Of no layers at all.
  for (const LayerKind& kind : question.kinds) {
    HEADROOM_ASSERT(!kind.options.empty());
    for (const LayerOption& option : kind.options) {
      limits.insert(option.fixed);
    }
  }
  std::optional<Placement> best;
  for (const std::int64_t fixed : limits) {
    Branching(question, fixed).run(best);
  }
  return best;
}

}  // namespace headroom::plan
