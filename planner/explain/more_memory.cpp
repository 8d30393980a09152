#include "planner/explain/more_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "costmodel/binding_rank.h"
#include "costmodel/memory/timeline.h"
#include "costmodel/outside_memory.h"
#include "planner/explain/held.h"
#include "planner/search/evaluator.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// The allocator reserves memory in units of this size.
constexpr std::int64_t kSegment = 2 * kMiB;

/// Where replays are judged by their chance to fit (`SearchQuestion::judge`), budgets are looked
/// for in steps of this part of them, or of one segment if that is more: a chance changes little
/// within them.
constexpr std::int64_t kShareOfStep = 500;

/// The step of budgets from `budget` on, in whole segments.
std::int64_t step_of_budgets(const SearchQuestion& question, std::int64_t budget) {
  const std::int64_t share = question.judge ? budget / kShareOfStep / kSegment : 1;
  return std::max(share, std::int64_t{1}) * kSegment;
}

/// Whether one plan fits into given budgets. The plan is lowered once and replayed for each budget.
class FitsIn {
 public:
  FitsIn(const SearchQuestion& question, const RatedPlan& plan)
      : question_(question), plan_(plan) {}

  Result<bool> operator()(Bytes budget) {
    if (ir::runtime_of(plan_.plan).depends_on_room(plan_.plan)) {
      const Result<cost::StepEstimate> replayed = judged_replay(question_, plan_.plan, budget);
      return replayed ? Result<bool>(is_accepted(question_, *replayed))
                      : Result<bool>(replayed.error());
    }
    if (Status status = programs_.empty() ? lower() : ok(); !status) {
      return std::move(status).error();
    }
    SearchQuestion there = question_;
    there.budget = budget;
    const Bytes capacity = capacity_of(there, plan_.plan);
    return std::ranges::none_of(programs_, [&](const ir::RankProgram& program) {
      return cost::replay(program, plan_.plan.allocator, capacity).out_of_memory.has_value();
    });
  }

 private:
  Status lower() {
    const ir::ModelSpec& model = question_.space.model;
    for (const ir::Rank rank : cost::binding_ranks(model, plan_.plan)) {
      Result<ir::RankProgram> program =
          cost::lower_replayed(model, plan_.plan, question_.device, rank);
      if (!program) {
        return std::move(program).error();
      }
      programs_.push_back(std::move(program).value());
    }
    return ok();
  }

  const SearchQuestion& question_;
  const RatedPlan& plan_;
  std::vector<ir::RankProgram> programs_;
};

/// `least`, or so much more that the plan also has the chance to fit that the question asks for.
///
/// Model:   the chance grows with the budget, and budgets grow by `step_of_budgets`. From the first
/// budget whose room for this chance (`SearchQuestion::room`) holds the plan's peak, steps of
/// doubling length lead to budgets of which one is accepted and one is refused. Bisection finds the
/// first that is accepted.
Result<std::int64_t> accepted_budget(const SearchQuestion& question, const RatedPlan& plan,
                                     std::int64_t least) {
  constexpr std::size_t kMostSteps = 64;
  std::vector<std::int64_t> budgets = {least};
  while (budgets.size() <= kMostSteps) {
    const std::int64_t last = budgets.back();
    budgets.push_back(last + step_of_budgets(question, last));
  }
  SearchQuestion there = question;
  const auto holds = [&](std::int64_t budget) {
    there.budget = Bytes{budget};
    return capacity_of(there, plan.plan) >= plan.peak;
  };
  const auto begin = std::ranges::find_if(budgets, holds) - budgets.begin();
  std::size_t tried = std::min(static_cast<std::size_t>(begin), kMostSteps - 1);
  std::size_t first = 0;                                 // All before it are refused.
  std::size_t enough = question.judge ? kMostSteps : 0;  // The last is taken unseen.
  for (std::size_t step = 1; first < enough && !is_stopped(question); step *= 2) {
    const Result<cost::StepEstimate> replayed =
        judged_replay(question, plan.plan, Bytes{budgets[tried]});
    if (!replayed) {
      return replayed.error();
    }
    if (is_accepted(question, *replayed)) {
      enough = tried;
    } else {
      first = tried + 1;
    }
    if (enough == kMostSteps) {
      tried = std::min(tried + step, kMostSteps - 1);
    } else {
      tried = first == 0 ? enough - std::min(step, enough) : (first + enough) / 2;
    }
  }
  return budgets[enough];
}

/// The least budget above `below`, in whole segments, with which the replay of `plan` fits; a
/// greater one if the search is to end.
Result<std::int64_t> least_budget(const SearchQuestion& question, const RatedPlan& plan,
                                  std::int64_t below) {
  constexpr std::int64_t kLargest = (std::int64_t{1} << 60) / kSegment / 4;
  FitsIn fits_in(question, plan);
  std::int64_t refused = std::max(below, plan.peak.value()) / kSegment;
  std::int64_t enough = refused;
  for (std::int64_t step = 1;; step *= 2) {
    enough = refused + step;
    const Result<bool> fits = fits_in(Bytes{enough * kSegment});
    if (!fits) {
      return fits.error();
    }
    if (*fits) {
      break;
    }
    if (enough > kLargest) {  // It is not refused for its size.
      return Error::invalid_argument("budget", to_text(Bytes{enough * kSegment}),
                                     "a plan that fits into some memory");
    }
    refused = enough;
  }
  while (enough - refused > 1 && !is_stopped(question)) {
    const std::int64_t middle = (enough + refused) / 2;
    const Result<bool> fits = fits_in(Bytes{middle * kSegment});
    if (!fits) {
      return fits.error();
    }
    (*fits ? enough : refused) = middle;
  }
  return accepted_budget(question, plan, enough * kSegment);
}

}  // namespace

MaybeMend more_memory(const SearchQuestion& question, const RatedPlan& leanest,
                      SearchRecords& records) {
  constexpr int kMostRounds = 24;
  Mend mend;
  mend.kind = Mend::Kind::kBudget;
  mend.plan = leanest;
  const auto settle = [&]() -> Status {
    const Result<std::int64_t> least = least_budget(question, mend.plan, question.budget.value());
    if (!least) {
      return least.error();
    }
    const Result<cost::StepEstimate> there = judged_replay(question, mend.plan.plan, Bytes{*least});
    if (!there) {
      return there.error();
    }
    mend.value = *least;
    mend.verdict = there->verdict;
    mend.chance = there->chance;
    return ok();
  };
  if (Status status = settle(); !status) {
    return std::move(status).error();
  }
  const Bytes own = question.budget > Bytes{0} ? question.budget : question.device.total;
  std::int64_t refused = own.value() / kSegment;  // In segments, as all sizes below.
  const auto is_narrow = [&] {
    return (mend.value / kSegment - refused) * kSegment <= step_of_budgets(question, mend.value);
  };
  bool descending = true;
  std::int64_t down = step_of_budgets(question, mend.value) / kSegment;
  for (int round = 0; round < kMostRounds && !is_narrow() && !is_stopped(question); ++round) {
    const std::int64_t enough = mend.value / kSegment;
    const std::int64_t middle = (enough + refused) / 2;
    const std::int64_t tried = descending ? std::max(enough - down, middle) : middle;
    SearchQuestion less = quiet(question);
    less.budget = Bytes{tried * kSegment};
    const Result<std::optional<PlanResult>> found = any_of(less, records);
    if (!found) {
      return found.error();
    }
    if (!*found || (*found)->status == PlanStatus::kInfeasible) {
      refused = tried;
      descending = false;
      continue;
    }
    down *= 2;
    if (!(*found)->best) {
      break;
    }
    take_plan(**found, mend);
    if (question.judge) {  // To settle it takes longer than another round.
      mend.value = tried * kSegment;
    } else if (Status status = settle(); !status) {
      return std::move(status).error();
    }
  }
  mend.proven = is_narrow();
  SearchQuestion there = question;
  there.budget = Bytes{mend.value};
  mend.plan.capacity = capacity_of(there, mend.plan.plan);
  return std::optional(mend);
}

}  // namespace headroom::plan
