#include "costmodel/combined_remedies.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

using Kind = Change::Kind;
using Changes = std::vector<Change>;

/// A combination that adds no more than this to a step is as good as free. A choice.
constexpr double kNearlyFree = 1.05;
/// Where plans without the host take more than this, plans with it are looked at. A choice: a
/// recomputed forward adds a third, and optimizers on the host add less only to long steps.
constexpr double kMuchSlower = 1.5;

/// Most doublings of tensor-parallel ranks that are tried.
constexpr int kMostDoublings = 6;

Changes of_kind(const ir::ParallelPlan& plan, Kind kind) {
  Changes changes;
  for (const ir::OwnChange& own : ir::changes_of(plan)) {
    if (own.change.kind == kind) {
      changes.push_back(own.change);
    }
  }
  return changes;
}

int price_of(const Changes& changes) {
  int price = 0;
  for (const Change& change : changes) {
    price += change.price;
  }
  return price;
}

Changes joined(const Changes& left, const Changes& right) {
  Changes all = left;
  all.insert(all.end(), right.begin(), right.end());
  return all;
}

/// Every choice of at most one change of `kind`, added to every one of `before`.
std::vector<Changes> with_choices(const std::vector<Changes>& before, const Changes& choices) {
  std::vector<Changes> all = before;
  for (const Changes& start : before) {
    for (const Change& choice : choices) {
      all.push_back(joined(start, {choice}));
    }
  }
  return all;
}

bool has_kind(const Changes& changes, Kind kind) {
  return std::ranges::any_of(changes, [kind](const Change& one) { return one.kind == kind; });
}

/// The modes of one kind of training, cheapest first.
std::vector<Changes> modes_of(const ir::ParallelPlan& plan, const Changes& training) {
  std::vector<Changes> modes = {training};
  modes = with_choices(modes, of_kind(plan, Kind::kSharding));
  const std::vector<Changes> narrow = modes;
  for (const Change& tensor : of_kind(plan, Kind::kTensor)) {
    for (int doublings = 1; doublings <= kMostDoublings; ++doublings) {
      for (const Changes& mode : narrow) {
        modes.push_back(joined(mode, Changes(static_cast<std::size_t>(doublings), tensor)));
      }
    }
  }
  modes = with_choices(modes, of_kind(plan, Kind::kHost));
  std::ranges::stable_sort(modes, {}, price_of);
  return modes;
}

/// Looks for the cheapest combination of one mode.
class ModeSearch {
 public:
  ModeSearch(RemedyJudge& judge, Changes structure)
      : judge_(judge), structure_(std::move(structure)) {}

  /// The combination of everything, whether it fits or not; nothing if the framework refuses it.
  std::optional<Remedy> leanest() {
    std::ranges::sort(structure_);
    if (!judge_.changed(structure_)) {
      return std::nullopt;
    }
    collect();
    std::optional<Remedy> lean = judged(slower_, halvings_, free_);
    // A kernel or library that the model's family lacks is refused only when the plan is lowered.
    Changes dropped;
    while (!lean && !free_.empty()) {
      dropped.push_back(free_.back());
      free_.pop_back();
      lean = judged(slower_, halvings_, free_);
    }
    for (const Change& change : dropped) {
      if (std::optional<Remedy> with = judged(slower_, halvings_, joined(free_, {change}))) {
        free_.push_back(change);
        lean = std::move(with);
      }
    }
    return lean;
  }

  /// The cheapest combination. Requires that the leanest one mends.
  Remedy cheapest(const Remedy& lean) {
    std::optional<Remedy> best;
    const std::uint32_t all = (std::uint32_t{1} << slower_.size()) - 1;
    const std::uint32_t needed = needed_ones(all);
    for (const std::uint32_t mask : by_price(all)) {
      if ((mask & needed) != needed || (best && slowdown_of(*best) <= kNearlyFree)) {
        continue;
      }
      const std::optional<Remedy> found = largest_micro_batch(mask);
      if (found && (!best || is_cheaper(*found, *best))) {
        best = found;
      }
    }
    return without_needless(best ? *std::move(best) : lean);
  }

 private:
  /// The changes beside the mode's that apply one after the other.
  void collect() {
    Changes made = structure_;
    for (const Kind kind : {Kind::kFree, Kind::kSlower}) {
      for (const Change& change : of_kind(judge_.plan(), kind)) {
        if (change == Change::kSmallerMicroBatch) {
          continue;
        }
        Changes with = joined(made, {change});
        std::ranges::sort(with);
        if (judge_.changed(with)) {
          (kind == Kind::kFree ? free_ : slower_).push_back(change);
          made = std::move(with);
        }
      }
    }
    for (;; ++halvings_) {
      Changes with = joined(made, Changes(halvings_ + 1, Change::kSmallerMicroBatch));
      std::ranges::sort(with);
      if (!judge_.changed(with)) {
        break;
      }
    }
  }

  std::optional<Remedy> judged(const Changes& slower, std::size_t halvings, const Changes& free) {
    Changes all = joined(joined(structure_, free), slower);
    all.insert(all.end(), halvings, Change::kSmallerMicroBatch);
    std::ranges::sort(all);
    return judge_.judge(all);
  }

  [[nodiscard]] Changes chosen(std::uint32_t mask) const {
    Changes changes;
    for (std::size_t i = 0; i < slower_.size(); ++i) {
      if ((mask >> i & 1U) != 0) {
        changes.push_back(slower_[i]);
      }
    }
    return changes;
  }

  /// The changes without which nothing fits.
  std::uint32_t needed_ones(std::uint32_t all) {
    std::uint32_t needed = 0;
    for (std::size_t i = 0; i < slower_.size(); ++i) {
      const std::uint32_t one = std::uint32_t{1} << i;
      const std::optional<Remedy> without = judged(chosen(all & ~one), halvings_, free_);
      if (without && !judge_.mends(*without)) {
        needed |= one;
      }
    }
    return needed;
  }

  [[nodiscard]] std::vector<std::uint32_t> by_price(std::uint32_t all) const {
    std::vector<std::uint32_t> masks;
    for (std::uint32_t mask = 0; mask <= all; ++mask) {
      masks.push_back(mask);
    }
    std::ranges::stable_sort(masks, {},
                             [this](std::uint32_t mask) { return price_of(chosen(mask)); });
    return masks;
  }

  /// The plan with as few halvings of the micro-batch as fit.
  std::optional<Remedy> largest_micro_batch(std::uint32_t mask) {
    const auto fails = [&](std::size_t halvings) {
      return std::ranges::any_of(failed_, [&](const auto& known) {
        return (mask & known.first) == mask && halvings <= known.second;
      });
    };
    for (std::size_t halvings = 0; halvings <= halvings_; ++halvings) {
      if (fails(halvings)) {
        continue;
      }
      if (halvings < halvings_ && !fails(halvings_)) {  // No micro-batch may be small enough.
        const std::optional<Remedy> least = judged(chosen(mask), halvings_, free_);
        if (!least || !judge_.mends(*least)) {
          failed_.emplace_back(mask, halvings_);
          return std::nullopt;
        }
      }
      std::optional<Remedy> remedy = judged(chosen(mask), halvings, free_);
      if (remedy && judge_.mends(*remedy)) {
        return remedy;
      }
      failed_.emplace_back(mask, halvings);
    }
    return std::nullopt;
  }

  /// Drops changes without which the plan fits and is as quick, the dearest first.
  Remedy without_needless(Remedy remedy) {
    constexpr double kAsQuick = 1.02;
    const auto try_without = [&](const Changes& dropped) {
      Changes fewer = remedy.changes;
      for (const Change& change : dropped) {
        if (const auto at = std::ranges::find(fewer, change); at != fewer.end()) {
          fewer.erase(at);
        }
      }
      if (fewer.empty() || fewer.size() == remedy.changes.size()) {
        return;
      }
      std::optional<Remedy> smaller = judge_.judge(fewer);
      if (smaller && judge_.mends(*smaller) &&
          slowdown_of(*smaller) <= kAsQuick * slowdown_of(remedy)) {
        remedy = *std::move(smaller);
      }
    };
    try_without(free_);
    Changes by_price = remedy.changes;
    std::ranges::sort(by_price, std::ranges::greater{});
    for (const Change& change : by_price) {
      try_without({change});
    }
    return remedy;
  }

  RemedyJudge& judge_;
  Changes structure_;
  Changes free_;
  Changes slower_;  ///< Without the micro-batch.
  std::size_t halvings_ = 0;
  std::vector<std::pair<std::uint32_t, std::size_t>> failed_;  ///< Subsets and halvings.
};

/// The combinations of one kind of training.
struct CheapestPair {
  std::optional<Remedy> cheapest;
  std::optional<Remedy> leanest;  ///< The leanest remedy of the mode of `cheapest`.
};

CheapestPair cheapest_of(RemedyJudge& judge, const Changes& training,
                         std::vector<Remedy>& short_ones) {
  CheapestPair of_all;
  std::optional<Remedy>& best = of_all.cheapest;
  for (const Changes& mode : modes_of(judge.plan(), training)) {
    const double slowdown = best ? slowdown_of(*best) : 0;
    if (judge.out_of_time() || (best && slowdown <= kNearlyFree)) {
      break;
    }
    if (best && has_kind(mode, Kind::kHost) && slowdown <= kMuchSlower) {
      continue;
    }
    ModeSearch search(judge, mode);
    std::optional<Remedy> lean = search.leanest();
    if (!lean) {
      continue;
    }
    if (!judge.mends(*lean)) {
      short_ones.push_back(*std::move(lean));
      continue;
    }
    Remedy found = search.cheapest(*lean);
    if (!best || is_cheaper(found, *best)) {
      best = std::move(found);
      of_all.leanest = std::move(lean);
    }
  }
  return of_all;
}

}  // namespace

Combinations combined_remedies(RemedyJudge& judge, Training training) {
  Combinations found;
  std::vector<Changes> kinds = {{}};
  if (training == Training::kAny) {
    for (const Change& change : of_kind(judge.plan(), Kind::kTraining)) {
      kinds.push_back({change});
    }
  }
  for (const Changes& kind : kinds) {
    CheapestPair best = cheapest_of(judge, kind, found.short_ones);
    if (!best.cheapest) {
      continue;
    }
    found.mending.push_back(*best.cheapest);
    if (best.cheapest->verdict == Verdict::kTight) {
      std::vector<Remedy> short_ones;
      judge.want_comfort(true);
      std::optional<Remedy> safer = cheapest_of(judge, kind, short_ones).cheapest;
      judge.want_comfort(false);
      found.mending.push_back(safer ? *std::move(safer) : *std::move(best.leanest));
    }
  }
  return found;
}

}  // namespace headroom::cost
