#include "costmodel/remedies.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "costmodel/combined_remedies.h"
#include "costmodel/memory_floor.h"
#include "costmodel/remedy_judge.h"
#include "costmodel/wider_remedy.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

/// Halves the micro-batch until the plan fits, or down to 1.
std::optional<Remedy> try_micro_batches(RemedyJudge& judge) {
  std::optional<Remedy> best;
  std::vector<Change> changes;
  for (;;) {
    changes.push_back(Change::kSmallerMicroBatch);
    std::optional<Remedy> remedy = judge.judge(changes);
    if (!remedy) {
      return best;
    }
    best = std::move(remedy);
    if (judge.mends(*best)) {
      return best;
    }
  }
}

std::vector<Remedy> try_single_changes(RemedyJudge& judge, std::size_t count) {
  std::vector<Remedy> tried;
  std::size_t mending = 0;
  for (const ir::OwnChange& own : ir::changes_of(judge.plan())) {
    const Change& change = own.change;
    std::optional<Remedy> remedy =
        change == Change::kSmallerMicroBatch ? try_micro_batches(judge) : judge.judge({change});
    if (!remedy) {
      continue;
    }
    mending += judge.mends(*remedy) ? 1U : 0U;
    tried.push_back(std::move(*remedy));
    if (mending == count) {
      break;
    }
  }
  return tried;
}

/// The steps of the decision tree, in its order.
std::vector<Remedy> walk_tree(RemedyJudge& judge, const ParallelPlan& plan) {
  std::vector<Remedy> walked;
  std::vector<Change> changes;
  for (const Change& step : ir::runtime_of(plan).remedy_order(plan)) {
    // The micro-batch is halved as far as possible before the next step is considered.
    do {
      changes.push_back(step);
      std::optional<Remedy> remedy = judge.judge(changes, Bounds::kNone);
      if (!remedy) {
        changes.pop_back();
        break;
      }
      walked.push_back(std::move(*remedy));
      if (judge.mends(walked.back())) {
        return walked;
      }
    } while (step == Change::kSmallerMicroBatch);
  }
  return walked;
}

/// Whether a single change costs next to nothing, so that no combination costs less.
bool is_nearly_free(const RemedyJudge& judge, const std::vector<Remedy>& tried) {
  constexpr double kNextToNothing = 1.05;  // A choice.
  return std::ranges::any_of(tried, [&](const Remedy& remedy) {
    return judge.mends(remedy) && !trains_otherwise(remedy) &&
           slowdown_of(remedy) <= kNextToNothing;
  });
}

/// Whether `all` has every change of `some`, as often.
bool includes(std::vector<Change> all, std::vector<Change> some) {
  std::ranges::sort(all);
  std::ranges::sort(some);
  return std::ranges::includes(all, some);
}

/// Whether `other` is tight and `remedy` leaves notably more.
bool is_safer(const Remedy& remedy, const Remedy& other) {
  constexpr Bytes kNotable{256 * kMiB};  // A choice.
  return other.verdict == Verdict::kTight &&
         (remedy.verdict == Verdict::kFits || remedy.margin > other.margin + kNotable);
}

/// If the first remedy is tight, puts a safer one before it that costs little more.
void put_safe_one_first(std::vector<Remedy>& kept) {
  constexpr double kLittleMore = 1.1;  // A choice.
  if (kept.empty() || kept.front().verdict != Verdict::kTight) {
    return;
  }
  const auto safe = std::ranges::find_if(kept, [&](const Remedy& remedy) {
    return is_safer(remedy, kept.front()) &&
           trains_otherwise(remedy) == trains_otherwise(kept.front()) &&
           slowdown_of(remedy) <= kLittleMore * slowdown_of(kept.front());
  });
  if (safe != kept.end()) {
    std::rotate(kept.begin(), safe, safe + 1);
  }
}

/// The remedies that fit, cheapest first: `count` that train the same and one of each kind of
/// other training. One that includes another is left out.
std::vector<Remedy> shown_of(std::vector<Remedy> mending, std::size_t count) {
  std::ranges::stable_sort(mending, is_cheaper);
  std::vector<Remedy> kept;
  std::size_t same = 0;
  for (Remedy& remedy : mending) {
    const bool otherwise = trains_otherwise(remedy);
    const bool listed = std::ranges::any_of(kept, [&](const Remedy& one) {
      return one.plan == remedy.plan ||
             (!is_safer(remedy, one) && includes(remedy.changes, one.changes));
    });
    if (listed || (!otherwise && same == count)) {
      continue;
    }
    same += otherwise ? 0U : 1U;
    kept.push_back(std::move(remedy));
  }
  put_safe_one_first(kept);
  return kept;
}

/// The remedies that save the most of what is short, though they do not suffice. Bounds are
/// replaced by replays.
std::vector<Remedy> most_helpful(RemedyJudge& judge, const StepEstimate& found,
                                 std::vector<Remedy> tried, std::size_t count) {
  const bool host_is_short = !found.host.fits();
  const Bytes lack = host_is_short ? -*found.host.least_margin() : -found.margin;
  const auto saved = [&](const Remedy& remedy) {
    if (!host_is_short) {
      return remedy.saved;
    }
    const std::optional<Bytes> margin = remedy.host.least_margin();
    return margin ? *margin + lack : Bytes{0};
  };
  std::ranges::stable_sort(tried, std::ranges::greater{}, saved);
  const auto helps = [&](const Remedy& remedy) {
    constexpr std::int64_t kNotable = 100;  // A hundredth of what is missing.
    return !remedy.ruled_out && saved(remedy) > Bytes{0} && kNotable * saved(remedy) >= lack;
  };
  std::erase_if(tried, [&](const Remedy& remedy) { return !helps(remedy); });
  std::vector<Remedy> kept;
  for (Remedy& remedy : tried) {
    const bool listed = std::ranges::find(kept, remedy.plan, &Remedy::plan) != kept.end();
    if (kept.size() == count || listed) {
      continue;
    }
    judge.make_exact(remedy);
    if (!remedy.estimated && helps(remedy)) {
      kept.push_back(std::move(remedy));
    }
  }
  std::ranges::stable_sort(kept, std::ranges::greater{}, saved);
  return kept;
}

/// Longer programs are not replayed on more GPUs, which would take minutes and much memory. A
/// choice: that of 126 layers has 62,000 events.
constexpr std::size_t kMostEvents = 500'000;

std::int64_t least_gpus(const RemedyQuestion& question, Bytes capacity) {
  const ParallelPlan alone = ir::runtime_of(question.plan).on_one_device(question.plan);
  const Bytes floor = memory_floor(question.model, alone);
  return std::max(std::int64_t{1},
                  ceil_div(floor.value(), std::max(capacity.value(), std::int64_t{1})));
}

/// Whether a process alone, without any tensor, takes all of the device's memory.
bool leaves_nothing(const RemedyQuestion& question, const StepEstimate& found) {
  return total_of(process_terms(question.device, 1)) >= found.device_total;
}

/// Sets the plan with the smallest lack of memory, if no plan was found that fits.
void keep_leanest(Remedies& remedies) {
  const auto margin = [](const Remedy& remedy) { return least_margin(remedy.margin, remedy.host); };
  for (const Remedy& remedy : remedies.cheapest) {
    if (!remedies.leanest || margin(remedy) >= margin(*remedies.leanest)) {
      remedies.leanest = remedy;
    }
  }
  if (remedies.wider) {
    remedies.leanest.reset();
  }
}

}  // namespace

Remedies find_remedies(const RemedyQuestion& question, const StepEstimate& found) {
  constexpr double kOwnShare = 0.5;  // Of the time: for the plan's own number of GPUs.
  const Deadline begin = std::chrono::steady_clock::now();
  RemedyJudge judge(question, found, deadline_after(begin, question.limit, kOwnShare));
  Remedies remedies;
  if (leaves_nothing(question, found)) {
    remedies.least_gpus = 0;
    return remedies;
  }
  if (question.tree == TreeWalk::kAlways) {
    remedies.tree = walk_tree(judge, question.plan);
  }
  std::vector<Remedy> tried = try_single_changes(judge, question.count);
  const bool is_short = found.program.events.size() <= kMostEvents;
  if (is_short && !is_nearly_free(judge, tried)) {
    Combinations combined = combined_remedies(judge, Training::kAny);
    tried.insert(tried.end(), combined.mending.begin(), combined.mending.end());
    tried.insert(tried.end(), combined.short_ones.begin(), combined.short_ones.end());
  }
  std::vector<Remedy> mending;
  std::ranges::copy_if(tried, std::back_inserter(mending),
                       [&](const Remedy& remedy) { return judge.mends(remedy); });
  remedies.least_gpus = least_gpus(question, found.capacity);
  remedies.cut_short = judge.out_of_time();
  // Where the host is short, more nodes help before other training does.
  const bool wants_nodes = !found.host.fits() && std::ranges::all_of(mending, trains_otherwise);
  if (is_short && (mending.empty() || wants_nodes)) {
    WiderRemedies wider =
        wider_remedies(question, remedies.least_gpus, deadline_after(begin, question.limit, 1));
    remedies.wider = std::move(wider.mending);
    remedies.leanest = std::move(wider.short_one);
    remedies.cut_short = remedies.cut_short || wider.cut_short;
  }
  if (!mending.empty()) {
    remedies.cheapest = shown_of(std::move(mending), question.count);
    remedies.leanest.reset();
  } else {
    remedies.cheapest = most_helpful(judge, found, std::move(tried), question.count);
    keep_leanest(remedies);
  }
  remedies.replays = judge.replays();
  return remedies;
}

}  // namespace headroom::cost
