#include "costmodel/remedies.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "costmodel/layer_bound.h"
#include "costmodel/memory_floor.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

/// Matrix FLOPs of the replayed program per token that it processes.
double flops_per_token(const ir::RankProgram& program, const ParallelPlan& plan) {
  double flops = 0;
  for (const ir::Phase& phase : program.phases) {
    flops += phase.work.gemm_flops;
  }
  const std::int64_t micro_batches = plan.steps * replayed_micro_batches(plan);
  const auto tokens = static_cast<double>(micro_batches * plan.micro_batch * plan.sequence);
  return flops / tokens;
}

double flops_ratio(const StepEstimate& before, const ParallelPlan& plan_before,
                   const StepEstimate& after, const ParallelPlan& plan_after) {
  const double flops = flops_per_token(before.program, plan_before);
  return flops > 0 ? flops_per_token(after.program, plan_after) / flops : 1.0;
}

/// One search for remedies. It caches replays, so that no plan is replayed twice.
class Search {
 public:
  Search(const RemedyQuestion& question, const StepEstimate& found)
      : question_(question), found_(found) {}

  [[nodiscard]] bool mends(const Remedy& remedy) const {
    return remedy.verdict == Verdict::kFits ||
           (found_.verdict == Verdict::kDoesNotFit && remedy.verdict == Verdict::kTight);
  }

  /// The result of the plan after `changes`; nothing if they do not apply or the runtime refuses
  /// the plan. If bounds are allowed and one shows that the plan cannot fit, no replay runs.
  std::optional<Remedy> judge(const std::vector<Change>& changes) {
    std::optional<ParallelPlan> plan = changed(changes);
    if (!plan) {
      return std::nullopt;
    }
    if (std::optional<Remedy> known = recall(*plan)) {
      known->changes = changes;
      return known;
    }
    Remedy remedy;
    remedy.changes = changes;
    remedy.plan = std::move(*plan);
    if (const Bytes floor = memory_floor(question_.model, remedy.plan); floor > found_.capacity) {
      bound_by(floor, remedy);
      remedy.ruled_out = true;
    } else if (const std::optional<Bytes> bound = hopeless(remedy.plan)) {
      bound_by(*bound, remedy);
      remedy.estimated = true;
    } else if (!replay(remedy)) {
      return std::nullopt;
    }
    known_.push_back(remedy);
    return remedy;
  }

  /// Replaces the bounds of an estimated remedy with the results of a replay.
  void make_exact(Remedy& remedy) {
    if (remedy.estimated && replay(remedy)) {
      remedy.estimated = false;
    }
  }

  [[nodiscard]] std::size_t replays() const { return replays_; }
  [[nodiscard]] const ParallelPlan& plan() const { return question_.plan; }

 private:
  /// The plan after `changes`; nothing if one of them does not apply.
  [[nodiscard]] std::optional<ParallelPlan> changed(const std::vector<Change>& changes) const {
    ParallelPlan plan = question_.plan;
    for (const Change& change : changes) {
      std::optional<ParallelPlan> next = with_change(plan, change, question_.device);
      if (!next) {
        return std::nullopt;
      }
      plan = std::move(*next);
    }
    return plan;
  }

  [[nodiscard]] std::optional<Remedy> recall(const ParallelPlan& plan) const {
    const auto known = std::ranges::find(known_, plan, &Remedy::plan);
    return known != known_.end() ? std::optional(*known) : std::nullopt;
  }

  void bound_by(Bytes least, Remedy& remedy) const {
    remedy.verdict = Verdict::kDoesNotFit;
    remedy.peak_allocated = least;
    remedy.peak_reserved = least;
    remedy.margin = found_.capacity - least;
    remedy.saved = found_.peak_reserved - least;
  }

  /// A bound that shows that the plan cannot fit.
  [[nodiscard]] std::optional<Bytes> hopeless(const ParallelPlan& plan) const {
    if (question_.tree == TreeWalk::kAlways) {
      return std::nullopt;  // Every step of the tree is shown with its own figures.
    }
    const std::optional<Bytes> bound = layer_bound(question_.model, plan, question_.device);
    const double share = found_.verdict == Verdict::kDoesNotFit ? 0 : kTightShare;
    const double room = static_cast<double>(found_.capacity.value()) -
                        share * static_cast<double>(found_.device_total.value());
    return bound && static_cast<double>(bound->value()) > room ? bound : std::nullopt;
  }

  /// False if the runtime refuses the plan.
  bool replay(Remedy& remedy) {
    Result<StepEstimate> result = replay_of(remedy.plan);
    if (!result) {
      return false;
    }
    ++replays_;
    remedy.verdict = result->verdict;
    remedy.peak_allocated = result->peak_allocated;
    remedy.peak_reserved = result->peak_reserved;
    remedy.margin = result->margin;
    remedy.saved = found_.peak_reserved - result->peak_reserved;
    remedy.flops_ratio = flops_ratio(found_, question_.plan, *result, remedy.plan);
    return true;
  }

  [[nodiscard]] Result<StepEstimate> replay_of(const ParallelPlan& plan) const {
    ParallelPlan other = question_.plan;
    other.allocator = plan.allocator;
    if (other == plan) {  // The same program with other allocator settings.
      return cost::judge(found_.program, plan.allocator, found_.device_total, found_.outside);
    }
    return estimate(question_.model, plan, question_.device, question_.budget);
  }

  const RemedyQuestion& question_;
  const StepEstimate& found_;
  std::vector<Remedy> known_;
  std::size_t replays_ = 0;
};

/// Halves the micro-batch until the plan fits, or down to 1.
std::optional<Remedy> try_micro_batches(Search& search) {
  std::optional<Remedy> best;
  std::vector<Change> changes;
  for (;;) {
    changes.push_back(Change::kSmallerMicroBatch);
    std::optional<Remedy> remedy = search.judge(changes);
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
  for (const ir::OwnChange& own : ir::changes_of(search.plan())) {
    const Change& change = own.change;
    std::optional<Remedy> remedy =
        change == Change::kSmallerMicroBatch ? try_micro_batches(search) : search.judge({change});
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
std::vector<Remedy> walk_tree(Search& search, const ParallelPlan& plan) {
  std::vector<Remedy> walked;
  std::vector<Change> changes;
  for (const Change& step : ir::runtime_of(plan).remedy_order(plan)) {
    // The micro-batch is halved as far as possible before the next step is considered.
    do {
      changes.push_back(step);
      std::optional<Remedy> remedy = search.judge(changes);
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

/// Removes changes that a later step made unnecessary, the most expensive first.
Remedy without_needless_changes(Search& search, Remedy remedy) {
  std::vector<Change> by_cost = remedy.changes;
  std::ranges::sort(by_cost, std::ranges::greater{});
  for (const Change& change : by_cost) {
    std::vector<Change> fewer = remedy.changes;
    fewer.erase(std::ranges::find(fewer, change));
    if (fewer.empty()) {
      continue;
    }
    const std::optional<Remedy> smaller = search.judge(fewer);
    if (smaller && search.mends(*smaller)) {
      remedy = *smaller;
    }
  }
  return remedy;
}

/// Plans that fit come first, by their most expensive change, then by the number of changes; the
/// others by the bytes saved.
void sort_by_cost(const Search& search, std::vector<Remedy>& tried) {
  const auto rank = [&](const Remedy& remedy) {
    const bool mends = search.mends(remedy);
    const std::int64_t dearest = std::ranges::max_element(remedy.changes)->price;
    const auto changes = static_cast<std::int64_t>(remedy.changes.size());
    return mends ? std::array<std::int64_t, 3>{0, dearest, changes}
                 : std::array<std::int64_t, 3>{1, -remedy.saved.value(), dearest};
  };
  std::ranges::stable_sort(tried, {}, rank);
}

/// Bounds may rank remedies that are not shown; shown ones are replayed.
void keep_cheapest(Search& search, std::size_t count, std::vector<Remedy>& tried) {
  sort_by_cost(search, tried);
  std::erase_if(tried, [&](const Remedy& remedy) {
    return remedy.ruled_out || (!search.mends(remedy) && remedy.saved <= Bytes{0});
  });
  tried.resize(std::min(tried.size(), count));
  for (Remedy& remedy : tried) {
    search.make_exact(remedy);
  }
  std::erase_if(tried, &Remedy::estimated);
  sort_by_cost(search, tried);
}

std::int64_t least_gpus(const RemedyQuestion& question, Bytes capacity) {
  const ParallelPlan alone = ir::runtime_of(question.plan).on_one_device(question.plan);
  const Bytes floor = memory_floor(question.model, alone);
  return std::max(std::int64_t{1},
                  ceil_div(floor.value(), std::max(capacity.value(), std::int64_t{1})));
}

}  // namespace

Remedies find_remedies(const RemedyQuestion& question, const StepEstimate& found) {
  Search search(question, found);
  Remedies remedies;
  remedies.cheapest = try_single_changes(search, question.count);
  const auto mending = static_cast<std::size_t>(std::ranges::count_if(
      remedies.cheapest, [&](const Remedy& remedy) { return search.mends(remedy); }));
  if (question.tree == TreeWalk::kAlways || mending < question.count) {
    remedies.tree = walk_tree(search, question.plan);
  }
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

std::optional<ir::ParallelPlan> with_change(const ir::ParallelPlan& plan, const Change& change,
                                            const DeviceSpec& device) {
  const std::vector<ir::OwnChange> own = ir::changes_of(plan);
  const auto found = std::ranges::find(own, change, &ir::OwnChange::change);
  if (found == own.end()) {
    return std::nullopt;
  }
  std::optional<ir::ParallelPlan> changed = found->make(plan, {.bf16 = device.bf16});
  return changed == plan ? std::nullopt : changed;
}

}  // namespace headroom::cost
