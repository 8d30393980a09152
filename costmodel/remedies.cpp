#include "costmodel/remedies.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "costmodel/memory_floor.h"

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

/// A search of one question: remembers what was replayed, so that nothing is replayed twice.
class Search {
 public:
  Search(const RemedyQuestion& question, const StepEstimate& found)
      : question_(question), found_(found) {}

  [[nodiscard]] bool mends(const Remedy& remedy) const {
    return remedy.verdict == Verdict::kFits ||
           (found_.verdict == Verdict::kDoesNotFit && remedy.verdict == Verdict::kTight);
  }

  /// The plan after `changes`; nothing if one of them does not apply.
  [[nodiscard]] std::optional<ParallelPlan> changed(const std::vector<Change>& changes) const {
    ParallelPlan plan = question_.plan;
    for (const Change change : changes) {
      std::optional<ParallelPlan> next = with_change(plan, change, question_.device);
      if (!next) {
        return std::nullopt;
      }
      plan = std::move(*next);
    }
    return plan;
  }

  /// What the plan after `changes` comes to; nothing if they do not apply or the runtime refuses
  /// the plan.
  std::optional<Remedy> judge_changes(const std::vector<Change>& changes) {
    const std::optional<ParallelPlan> plan = changed(changes);
    if (!plan) {
      return std::nullopt;
    }
    for (const Remedy& known : known_) {
      if (known.plan == *plan) {
        Remedy remedy = known;
        remedy.changes = changes;
        return remedy;
      }
    }
    std::optional<Remedy> remedy = judge_plan(changes, *plan);
    if (remedy) {
      known_.push_back(*remedy);
    }
    return remedy;
  }

  [[nodiscard]] std::size_t replays() const { return replays_; }

 private:
  [[nodiscard]] Remedy ruled_out(const std::vector<Change>& changes, const ParallelPlan& plan,
                                 Bytes floor) const {
    return {.changes = changes,
            .plan = plan,
            .verdict = Verdict::kDoesNotFit,
            .peak_allocated = floor,
            .peak_reserved = floor,
            .margin = found_.capacity - floor,
            .saved = found_.peak_reserved - floor,
            .ruled_out = true};
  }

  std::optional<Remedy> judge_plan(const std::vector<Change>& changes, const ParallelPlan& plan) {
    const Bytes floor = memory_floor(question_.model, plan);
    if (floor > found_.capacity) {
      return ruled_out(changes, plan, floor);
    }
    ++replays_;
    const Result<StepEstimate> result =
        estimate(question_.model, plan, question_.device, question_.budget);
    if (!result) {
      return std::nullopt;
    }
    return Remedy{.changes = changes,
                  .plan = plan,
                  .verdict = result->verdict,
                  .peak_allocated = result->peak_allocated,
                  .peak_reserved = result->peak_reserved,
                  .margin = result->margin,
                  .saved = found_.peak_reserved - result->peak_reserved,
                  .ruled_out = false};
  }

  const RemedyQuestion& question_;
  const StepEstimate& found_;
  std::vector<Remedy> known_;
  std::size_t replays_ = 0;
};

/// Halves the micro-batch until it mends, or as far as it goes.
std::optional<Remedy> try_micro_batches(Search& search) {
  std::optional<Remedy> best;
  std::vector<Change> changes;
  for (;;) {
    changes.push_back(Change::kSmallerMicroBatch);
    std::optional<Remedy> remedy = search.judge_changes(changes);
    if (!remedy) {
      return best;
    }
    best = std::move(remedy);
    if (search.mends(*best)) {
      return best;
    }
  }
}

std::vector<Remedy> try_single_changes(Search& search, std::size_t count) {
  std::vector<Remedy> tried;
  std::size_t mending = 0;
  for (const Change change : all_changes()) {
    std::optional<Remedy> remedy = change == Change::kSmallerMicroBatch
                                       ? try_micro_batches(search)
                                       : search.judge_changes({change});
    if (!remedy) {
      continue;
    }
    mending += search.mends(*remedy) ? 1U : 0U;
    tried.push_back(std::move(*remedy));
    if (mending == count) {
      break;
    }
  }
  return tried;
}

/// The steps of the decision tree, in its order.
std::vector<Change> tree_order(const ParallelPlan& plan) {
  std::vector<Change> order = {Change::kMixedPrecision, Change::kCheckpointing,
                               Change::kSmallerMicroBatch};
  if (plan.world > 1) {
    order.insert(order.end(), {Change::kZero1, Change::kZero2, Change::kZero3});
  } else {
    order.insert(order.end(), {Change::kEightBitOptimizer, Change::kPureBf16, Change::kQlora});
  }
  order.insert(order.end(), {Change::kOffloadOptimizer, Change::kOffloadParameters});
  return order;
}

std::vector<Remedy> walk_tree(Search& search, const ParallelPlan& plan) {
  std::vector<Remedy> walked;
  std::vector<Change> changes;
  for (const Change step : tree_order(plan)) {
    // The micro-batch is halved as far as it goes before the next step is considered.
    do {
      changes.push_back(step);
      std::optional<Remedy> remedy = search.judge_changes(changes);
      if (!remedy) {
        changes.pop_back();
        break;
      }
      walked.push_back(std::move(*remedy));
      if (search.mends(walked.back())) {
        return walked;
      }
    } while (step == Change::kSmallerMicroBatch);
  }
  return walked;
}

/// Leaves out what the last step made unnecessary, dearest first.
Remedy without_needless_changes(Search& search, Remedy remedy) {
  std::vector<Change> by_cost = remedy.changes;
  std::ranges::sort(by_cost, std::ranges::greater{});
  for (const Change change : by_cost) {
    std::vector<Change> fewer = remedy.changes;
    fewer.erase(std::ranges::find(fewer, change));
    if (fewer.empty()) {
      continue;
    }
    const std::optional<Remedy> smaller = search.judge_changes(fewer);
    if (smaller && search.mends(*smaller)) {
      remedy = *smaller;
    }
  }
  return remedy;
}

/// Mending ones by their dearest change, then their number; the others by what they save.
void keep_cheapest(const Search& search, std::size_t count, std::vector<Remedy>& tried) {
  const auto rank = [&](const Remedy& remedy) {
    const bool mends = search.mends(remedy);
    const auto dearest = static_cast<std::int64_t>(*std::ranges::max_element(remedy.changes));
    const auto changes = static_cast<std::int64_t>(remedy.changes.size());
    return mends ? std::array<std::int64_t, 3>{0, dearest, changes}
                 : std::array<std::int64_t, 3>{1, -remedy.saved.value(), dearest};
  };
  std::ranges::stable_sort(tried, {}, rank);
  std::erase_if(tried, [&](const Remedy& remedy) {
    return remedy.ruled_out || (!search.mends(remedy) && remedy.saved <= Bytes{0});
  });
  tried.resize(std::min(tried.size(), count));
}

std::int64_t least_gpus(const RemedyQuestion& question, Bytes capacity) {
  ParallelPlan alone = question.plan;
  alone.world = 1;
  const Bytes floor = memory_floor(question.model, alone);
  return std::max(std::int64_t{1},
                  ceil_div(floor.value(), std::max(capacity.value(), std::int64_t{1})));
}

}  // namespace

Remedies find_remedies(const RemedyQuestion& question, const StepEstimate& found) {
  Search search(question, found);
  Remedies remedies;
  remedies.cheapest = try_single_changes(search, question.count);
  remedies.tree = walk_tree(search, question.plan);
  if (!remedies.tree.empty() && search.mends(remedies.tree.back())) {
    Remedy combined = without_needless_changes(search, remedies.tree.back());
    const bool listed = std::ranges::any_of(
        remedies.cheapest, [&](const Remedy& remedy) { return remedy.plan == combined.plan; });
    if (!listed) {
      remedies.cheapest.push_back(std::move(combined));
    }
  }
  keep_cheapest(search, question.count, remedies.cheapest);
  remedies.replays = search.replays();
  remedies.least_gpus = least_gpus(question, found.capacity);
  return remedies;
}

}  // namespace headroom::cost
