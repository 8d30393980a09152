#include "planner/placement/placement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::plan {
namespace {

constexpr int kHalvings = 60;  ///< Any multiplier gives a bound; more halvings improve it.
/// Sums in another order may differ in their last digits.
constexpr double kBelow = 1 - 1e-12;
constexpr double kNever = std::numeric_limits<double>::infinity();

using Counts = std::vector<std::vector<std::int64_t>>;

/// Layers of one kind that copy nothing, and their options.
struct KindChoices {
  std::int64_t layers = 0;
  struct One {
    std::size_t option = 0;
    double again = 0;
    double kept = 0;   ///< Bytes kept by all passes.
    double slack = 0;  ///< Excess of `again` plus priced bytes over the least option.
  };
  std::vector<One> all;
};

/// The least recomputation of layers that copy nothing, under a budget of kept bytes.
///
/// Model:   for a price of mu >= 0 seconds per byte, the recomputation is at least the sum of each
///          layer's least `again + mu kept`, minus mu times the budget (Lagrangian relaxation). A
///          layer with another option adds its slack. With the best mu, few placements have so
///          little slack that they can be better than the best known one.
class Knapsack {
 public:
  Knapsack(std::vector<KindChoices> kinds, double budget)
      : kinds_(std::move(kinds)), budget_(budget) {
    least_kept_.assign(kinds_.size() + 1, 0);
    for (std::size_t kind = kinds_.size(); kind-- > 0;) {
      const KindChoices& choices = kinds_[kind];
      double least = choices.layers > 0 ? kNever : 0;
      for (const KindChoices::One& one : choices.all) {
        least = choices.layers > 0 ? std::min(least, one.kept) : 0;
      }
      least_kept_[kind] = least_kept_[kind + 1] + static_cast<double>(choices.layers) * least;
    }
  }

  /// Calls `found(counts)` for placements. Each recomputes less than the previous ones and less
  /// than `limit()` seconds.
  template <typename Limit, typename Found>
  void run(Counts& counts, const Limit& limit, const Found& found) {
    if (least_kept_[0] > budget_) {
      return;
    }
    price();
    if (bound_ < limit() * kBelow || limit() == kNever) {
      descend(Place{}, counts, limit, found);
    }
  }

 private:
  struct Place {
    std::size_t kind = 0;
    std::size_t choice = 0;
    std::int64_t left = -1;  ///< Layers of the kind that have no option yet; -1: all.
    double slack = 0;
    double kept = 0;
  };

  /// Bytes above the budget if each kind has its best option at the price `mu`.
  [[nodiscard]] double bytes_over(double mu) const {
    double over = -budget_;
    for (const KindChoices& choices : kinds_) {
      std::pair<double, double> least{kNever, 0};
      for (const KindChoices::One& one : choices.all) {
        least = std::min(least, std::pair(one.again + mu * one.kept, one.kept));
      }
      over += static_cast<double>(choices.layers) * least.second;
    }
    return over;
  }

  /// Finds mu. The bound is concave in mu and highest where the best options just fill the budget.
  void price() {
    double low = 0;
    double mu = 0;
    double next = 1e-15;  // Seconds per byte, far below any link or memory.
    for (int i = 0; i < kHalvings && bytes_over(mu) > 0; ++i) {
      low = mu;
      mu = next;
      next *= 2;
    }
    for (int i = 0; i < kHalvings && mu > 0; ++i) {
      const double middle = (low + mu) / 2;
      (bytes_over(middle) > 0 ? low : mu) = middle;
    }
    bound_ = -mu * budget_;
    for (KindChoices& choices : kinds_) {
      double least = choices.layers > 0 ? kNever : 0;
      for (const KindChoices::One& one : choices.all) {
        least = choices.layers > 0 ? std::min(least, one.again + mu * one.kept) : 0;
      }
      for (KindChoices::One& one : choices.all) {
        one.slack = one.again + mu * one.kept - least;
      }
      bound_ += static_cast<double>(choices.layers) * least;
      // The most expensive first: few layers can have it, and the best option remains for the
      // others.
      std::ranges::stable_sort(choices.all, std::ranges::greater{}, &KindChoices::One::slack);
    }
  }

  template <typename Limit, typename Found>
  void descend(Place at, Counts& counts, const Limit& limit, const Found& found) {
    if (at.kind == kinds_.size()) {
      found(counts);
      return;
    }
    const KindChoices& choices = kinds_[at.kind];
    at.left = at.left < 0 ? choices.layers : at.left;
    if (at.left == 0) {
      descend(Place{at.kind + 1, 0, -1, at.slack, at.kept}, counts, limit, found);
      return;
    }
    if (at.choice == choices.all.size()) {
      return;
    }
    const KindChoices::One& one = choices.all[at.choice];
    std::int64_t& count = counts[at.kind][one.option];
    const auto [few, many] = range_of(at);
    for (count = few; count <= many; ++count) {
      const auto times = static_cast<double>(count);
      const Place next{at.kind, at.choice + 1, at.left - count, at.slack + times * one.slack,
                       at.kept + times * one.kept};
      if (bound_ + next.slack >= limit() * kBelow) {
        break;
      }
      if (next.kept + least_kept_[at.kind + 1] <= budget_) {
        descend(next, counts, limit, found);
      }
    }
    count = 0;
  }

  /// The least and the greatest number of layers that may have the choice at `at`. The last choice
  /// takes all layers that are left. Of the last two choices of the last kind, the slower one takes
  /// only as many as necessary.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range_of(const Place& at) const {
    const std::vector<KindChoices::One>& all = kinds_[at.kind].all;
    if (at.choice + 1 == all.size()) {
      return {at.left, at.left};
    }
    if (at.choice + 2 < all.size() || at.kind + 1 < kinds_.size()) {
      return {0, at.left};
    }
    const KindChoices::One& one = all[at.choice];
    const KindChoices::One& other = all[at.choice + 1];
    const bool quick = one.again <= other.again;
    const double room = budget_ - at.kept;
    const double left = static_cast<double>(at.left);
    // n one.kept + (left - n) other.kept <= room
    const double over = left * other.kept - room;
    const double step = other.kept - one.kept;
    if (quick) {  // As many as fit.
      const double most = step >= 0 ? left : std::floor(-over / -step);
      const auto count = static_cast<std::int64_t>(std::clamp(most, 0.0, left));
      return {count, count};
    }
    const double least = over <= 0 || step <= 0 ? 0 : std::ceil(over / step);
    const auto count = static_cast<std::int64_t>(std::clamp(least, 0.0, left));
    return {count, count};
  }

  std::vector<KindChoices> kinds_;
  double budget_;
  double bound_ = 0;
  std::vector<double> least_kept_;  ///< Least bytes of this kind's layers and of later kinds.
};

/// Placements that use only options whose `fixed` is within a limit.
class Branching {
 public:
  Branching(const PlacementQuestion& question, std::int64_t fixed, std::optional<Placement>& best)
      : question_(question), fixed_(fixed), best_(best) {
    for (const LayerKind& kind : question.kinds) {
      counts_.emplace_back(kind.options.size(), 0);
    }
  }

  /// Replaces `best` by a better placement, if there is one.
  void run() {
    if (question_.budget >= fixed_) {
      copy(0, 0, question_.kinds.empty() ? 0 : question_.kinds[0].layers, {});
    }
  }

 private:
  struct Copies {
    double seconds = 0;
    double kept = 0;  ///< Bytes kept by all passes.
  };

  /// Recomputation time below which a placement with copies of `seconds` is better than the best
  /// known.
  [[nodiscard]] double limit(double seconds) const {
    if (!best_) {
      return kNever;
    }
    const double rest = best_->seconds - std::max(question_.forward, seconds);
    return rest > seconds ? rest - question_.backward : -1;
  }

  /// Tries every number of layers for every option that copies, then places the rest.
  void copy(std::size_t kind, std::size_t option, std::int64_t left, Copies copies) {
    if (best_ && limit(copies.seconds) <= 0) {
      return;  // Not better even without recomputation.
    }
    if (kind == question_.kinds.size()) {
      fill(copies);
      return;
    }
    const LayerKind& layers = question_.kinds[kind];
    if (option == layers.options.size()) {
      const std::size_t next = kind + 1;
      left_.push_back(left);
      copy(next, 0, next < question_.kinds.size() ? question_.kinds[next].layers : 0, copies);
      left_.pop_back();
      return;
    }
    const LayerOption& one = layers.options[option];
    const bool copies_any = one.copy > 0 && one.fixed <= fixed_;
    std::int64_t& count = counts_[kind][option];
    for (count = 0; count <= (copies_any ? left : 0); ++count) {
      const auto times = static_cast<double>(count);
      copy(kind, option + 1, left - count,
           {copies.seconds + times * one.copy,
            copies.kept + times * static_cast<double>(one.kept * question_.passes)});
    }
    count = 0;
  }

  void fill(const Copies& copies) {
    std::vector<KindChoices> kinds;
    for (std::size_t kind = 0; kind < question_.kinds.size(); ++kind) {
      KindChoices& choices = kinds.emplace_back();
      choices.layers = left_[kind];
      const std::vector<LayerOption>& options = question_.kinds[kind].options;
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (options[i].copy <= 0 && options[i].fixed <= fixed_) {
          choices.all.push_back({.option = i,
                                 .again = options[i].again,
                                 .kept = static_cast<double>(options[i].kept * question_.passes)});
        }
      }
    }
    Counts counts = counts_;
    Knapsack knapsack(std::move(kinds),
                      static_cast<double>(question_.budget - fixed_) - copies.kept);
    knapsack.run(
        counts, [&] { return limit(copies.seconds); }, [&](const Counts& found) { settle(found); });
  }

  void settle(const Counts& counts) {
    Placement found = placement_of(question_, counts);
    if (found.bytes <= question_.budget && (!best_ || found.seconds < best_->seconds)) {
      best_ = std::move(found);
    }
  }

  const PlacementQuestion& question_;
  std::int64_t fixed_;
  std::optional<Placement>& best_;
  Counts counts_;                   ///< Counts of the options that copy.
  std::vector<std::int64_t> left_;  ///< By kind, layers that copy nothing.
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
  std::set<std::int64_t> limits{0};  // For no layers at all.
  for (const LayerKind& kind : question.kinds) {
    HEADROOM_ASSERT(!kind.options.empty());
    for (const LayerOption& option : kind.options) {
      limits.insert(option.fixed);
    }
  }
  std::optional<Placement> best;
  for (const std::int64_t fixed : limits) {
    Branching(question, fixed, best).run();
  }
  return best;
}

}  // namespace headroom::plan
