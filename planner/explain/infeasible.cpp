#include "planner/explain/infeasible.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/binding_rank.h"
#include "costmodel/memory/timeline.h"
#include "costmodel/outside_memory.h"
#include "model_ir/plan/plan_limits.h"
#include "planner/explain/held.h"
#include "planner/search/evaluator.h"
#include "planner/space/all_axes.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

using MaybeMend = Result<std::optional<Mend>>;

/// Number of cells into which the search for the leanest plan looks, which is more than a space of
/// one node has. Cells are in ascending order of their memory bounds, so that the result is close
/// to the lowest peak. `Infeasibility::proven` says whether it is the lowest.
constexpr std::uint64_t kLeanestLimit = 400;

/// Events after which the search for the leanest plan ends, and every other search
/// (`SearchQuestion::effort`). Two cores lower and replay five to eight million events in a second.
/// Source: tests/bench/results/infeasible_epyc-2vcpu_2026-11-30.md.
constexpr std::uint64_t kLeanestEffort = 8'000'000;
constexpr std::uint64_t kEffort = 4'000'000;

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

bool is_stopped(const SearchQuestion& question) {
  return question.stop.asked();
}

/// The answer of the search; nothing for an empty space.
Result<std::optional<PlanResult>> asked(const SearchQuestion& question, SearchRecords& records) {
  if (!has_plans(question.space)) {
    return std::optional<PlanResult>();
  }
  SearchQuestion limited = question;
  limited.effort = kEffort;
  Result<PlanResult> found = search(limited, records);
  if (!found) {
    // A value that every framework refuses is a space without a plan.
    return is_refusal(found.error())
               ? Result<std::optional<PlanResult>>(std::optional<PlanResult>())
               : std::move(found).error();
  }
  return std::optional(std::move(found).value());
}

/// A plan that fits, searched from those that need least.
Result<std::optional<PlanResult>> any_of(const SearchQuestion& question, SearchRecords& records) {
  SearchQuestion any = quiet(question);
  any.objective = Objective::kMemory;
  any.any = true;
  return asked(any, records);
}

/// Whether the answer leaves open that some plan fits.
bool is_open(const std::optional<PlanResult>& found) {
  return found && !found->best && found->status != PlanStatus::kInfeasible;
}

void take_plan(const PlanResult& found, Mend& mend) {
  mend.plan = *found.best;
  mend.verdict = found.estimate->verdict;
  mend.chance = found.estimate->chance;
}

/// `mend` with the best plan of `question` that a search of limited effort finds, if it finds one.
MaybeMend with_better(Mend mend, const SearchQuestion& question, SearchRecords& records) {
  const Result<std::optional<PlanResult>> best = asked(question, records);
  if (!best) {
    return best.error();
  }
  if (*best && (*best)->best) {
    take_plan(**best, mend);
  }
  return std::optional(std::move(mend));
}

/// The same, but nothing if no plan of `question` fits. `open` is set if the search for one ended
/// before it found one.
MaybeMend with_best(Mend mend, const SearchQuestion& question, SearchRecords& records, bool& open) {
  const Result<std::optional<PlanResult>> any = any_of(question, records);
  if (!any) {
    return any.error();
  }
  open = open || is_open(*any);
  if (!*any || !(*any)->best) {
    return std::optional<Mend>();
  }
  take_plan(**any, mend);
  return with_better(std::move(mend), question, records);
}

/// A mend whose plan is not known yet.
Mend mend_to(Mend::Kind kind, std::int64_t value) {
  Mend mend;
  mend.kind = kind;
  mend.value = value;
  return mend;
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

/// The least device memory in which some plan fits.
///
/// Model:   mostly that in which `leanest` fits, or little less: from there on, budgets are
/// searched
///          in descending steps of doubling length. From the first at which nothing fits, bisection
///          narrows the rest until one step of budgets is left.
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

/// The fewest GPUs above `above` and up to `most` on which some plan fits, with a batch of `batch`
/// sequences. `open`: as in `with_best`; no such number is proven to be the least.
MaybeMend fewest_gpus(const SearchQuestion& question, std::int64_t above, std::int64_t most,
                      std::int64_t batch, SearchRecords& records, bool& open) {
  constexpr std::int64_t kMostCounts = 256;
  const std::int64_t step = (most - above + kMostCounts - 1) / kMostCounts;
  AxisValues counts;
  const std::int64_t node = std::max(question.machine.topology.devices_per_node, 1);
  for (std::int64_t gpus = above + step; gpus <= most; gpus += step) {
    const std::int64_t whole = gpus <= node ? gpus : ceil_div(gpus, node) * node;
    if (whole <= most && (counts.empty() || counts.back() < whole)) {
      counts.push_back(whole);
    }
  }
  if (counts.empty()) {
    return std::optional<Mend>();
  }
  SearchQuestion fewest = held(question, Axis::kGpus, counts);
  fewest.objective = Objective::kGpus;
  fewest.any = true;
  fewest.space.global_batch = batch;
  const Result<std::optional<PlanResult>> found = asked(fewest, records);
  if (!found) {
    return found.error();
  }
  open = open || is_open(*found);
  if (!*found || !(*found)->best) {
    return std::optional<Mend>();
  }
  Mend mend = mend_to(Mend::Kind::kGpus, (*found)->best->plan.world);
  mend.batch = batch == question.space.global_batch ? 0 : batch;
  mend.proven = step == 1 && mend.batch == 0 && (*found)->gap == 0 && !open;
  take_plan(**found, mend);
  SearchQuestion there = held(question, Axis::kGpus, {mend.value});
  there.space.global_batch = batch;
  return with_better(std::move(mend), there, records);
}

/// The fewest GPUs on which some plan fits.
MaybeMend more_gpus(const SearchQuestion& question, SearchRecords& records) {
  constexpr int kMostDoublings = 8;
  const AxisValues& given = question.space.constraints.of(Axis::kGpus);
  bool open = false;
  std::int64_t above = 0;
  std::int64_t most = 2 * (given.empty() ? question.space.base.world : given.back());
  for (int doubling = 0; doubling < kMostDoublings && !is_stopped(question); ++doubling) {
    most = std::min(most, ir::kMostRanks);
    if (above >= most) {
      break;
    }
    // The batch of a step stays the same, unless it has fewer sequences than there are GPUs.
    const std::int64_t batch = question.space.global_batch;
    for (const std::int64_t sequences : {batch, std::max(batch, most)}) {
      MaybeMend mend = fewest_gpus(question, above, most, sequences, records, open);
      if (!mend || *mend) {
        return mend;
      }
      if (sequences == most || batch >= most) {
        break;
      }
    }
    above = most;
    most *= 2;
  }
  return std::optional<Mend>();
}

/// Whether some plan fits with sequences of `length` tokens.
Result<bool> fits_with(const SearchQuestion& question, std::int64_t length,
                       SearchRecords& records) {
  const Result<std::optional<PlanResult>> found =
      any_of(held(question, Axis::kSequence, {length}), records);
  return found ? Result<bool>(*found && (*found)->best) : Result<bool>(found.error());
}

/// The longest shorter sequence with which some plan fits.
MaybeMend shorter(const SearchQuestion& question, SearchRecords& records) {
  constexpr std::int64_t kShortest = 128;
  constexpr std::int64_t kParts = 64;
  const AxisValues& given = question.space.constraints.of(Axis::kSequence);
  const std::int64_t whole = given.empty() ? question.space.base.workload.sequence : given.front();
  const std::int64_t grain = std::max(kShortest, whole / kParts / kShortest * kShortest);
  const Result<bool> any = whole > kShortest ? fits_with(question, kShortest, records) : false;
  if (!any || !*any) {
    return any ? MaybeMend(std::optional<Mend>()) : any.error();
  }
  std::int64_t refused = whole;
  std::int64_t longest = 0;
  for (std::int64_t length = whole / 2; length > kShortest && longest == 0; length /= 2) {
    const Result<bool> fits = fits_with(question, length, records);
    if (!fits) {
      return fits.error();
    }
    (*fits ? longest : refused) = length;
  }
  longest = std::max(longest, kShortest);
  while (!is_stopped(question)) {
    const std::int64_t middle = (longest + refused) / 2 / grain * grain;
    if (middle <= longest || middle >= refused) {
      break;
    }
    const Result<bool> fits = fits_with(question, middle, records);
    if (!fits) {
      return fits.error();
    }
    (*fits ? longest : refused) = middle;
  }
  Mend mend = mend_to(Mend::Kind::kSequence, longest);
  mend.proven = false;  // Exact only to the step of the bisection.
  bool open = false;
  return with_best(mend, held(question, Axis::kSequence, {longest}), records, open);
}

/// Distance between `value` and the nearest of `given`: by position for words, by ratio for
/// numbers.
double distance_of(Axis axis, const AxisValues& given, std::int64_t value) {
  double least = INFINITY;
  for (const std::int64_t one : given) {
    const auto from = static_cast<double>(one);
    const auto to = static_cast<double>(value);
    const double far = words_of_axis(axis).empty() ? std::abs(std::log2((to + 1) / (from + 1)))
                                                   : std::abs(to - from);
    least = std::min(least, far);
  }
  return least;
}

/// Whether some searched framework offers other values of `axis` although the user did not name it.
bool is_offered(const SpaceQuestion& space, Axis axis) {
  if (axis == Axis::kFrozenWeights) {
    return space.base.lora.has_value();
  }
  const AxisValues& named = space.constraints.of(Axis::kRuntime);
  const std::vector<const FrameworkSearch*> all = framework_searches();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool searched =
        named.empty() ? !all[i]->only_if_named()
                      : space.constraints.allows(Axis::kRuntime, static_cast<std::int64_t>(i));
    const SearchAxis* const own = find_axis(*all[i], axis);
    if (searched && own != nullptr && own->offered) {
      return true;
    }
  }
  return false;
}

/// For an axis that is held, the value nearest to the given ones with which some plan fits.
MaybeMend other_value(const SearchQuestion& question, Axis axis, SearchRecords& records) {
  const SearchQuestion free =
      held(question, axis, is_held(axis) ? parse_axis(axis, "any").value() : AxisValues{});
  const Result<std::optional<PlanResult>> any = any_of(free, records);
  if (!any) {
    return any.error();
  }
  if (!*any || !(*any)->best) {
    return std::optional<Mend>();
  }
  AxisValues given = question.space.constraints.of(axis);
  if (given.empty()) {
    // The value of a held axis that the user does not name.
    const SearchAxis* const common = find_common_axis(axis);
    given = {common == nullptr ? 0 : common->get(question.space.base)};
  }
  AxisValues values = values_in_space(free.space, axis);
  std::erase_if(values,
                [&](std::int64_t value) { return std::ranges::binary_search(given, value); });
  std::ranges::stable_sort(values, {},
                           [&](std::int64_t value) { return distance_of(axis, given, value); });
  bool open = false;
  for (const std::int64_t value : values) {
    Mend mend = mend_to(Mend::Kind::kAxis, value);
    mend.axis = axis;
    mend.proven = !open;
    MaybeMend found = with_best(mend, held(question, axis, {value}), records, open);
    if (!found || *found) {
      return found;
    }
  }
  // A plan without the axis, of a framework that does not have it.
  Mend mend = mend_to(Mend::Kind::kAxis, -1);
  mend.axis = axis;
  mend.proven = !open;
  return with_best(mend, free, records, open);
}

/// Whether `other` can have no room for any plan if those of the question need `needed`: on a GPU
/// of the same generation a plan takes almost the same memory, and on another one its workspaces
/// differ. With more host memory, more may be kept there.
bool is_too_small(const OtherDevice& other, const SearchQuestion& question, Bytes needed) {
  constexpr std::int64_t kPercentAlike = 95;
  constexpr std::int64_t kPercentOther = 75;
  const cost::DeviceSpec& own = question.device;
  const auto host_of = [](const cost::DeviceSpec& device) {
    return device.host ? cost::memory_of(*device.host, 1) : Bytes{};
  };
  const bool alike = own.traits.compute_major == other.device.traits.compute_major &&
                     own.traits.rocm == other.device.traits.rocm;
  return host_of(other.device) <= host_of(own) &&
         other.device.total < needed.value() / 100 * Bytes{alike ? kPercentAlike : kPercentOther};
}

/// The GPU with the least memory on which some plan fits. `needed`: memory in which some plan fits
/// on the GPU of the question; 0: it is not known.
MaybeMend other_device(const SearchQuestion& question, std::span<const OtherDevice> others,
                       Bytes needed) {
  bool open = false;
  for (const OtherDevice& other : others) {
    if (is_stopped(question)) {
      break;
    }
    if (is_too_small(other, question, needed)) {
      continue;
    }
    SearchQuestion there = quiet(question);
    there.device = other.device;
    there.space.device = other.device.traits;
    there.machine = other.machine;
    SearchRecords records;
    Mend mend = mend_to(Mend::Kind::kDevice, other.device.total.value());
    mend.device = other.device.name;
    mend.proven = !open;
    MaybeMend found = with_best(mend, there, records, open);
    if (!found || *found) {
      return found;
    }
  }
  return std::optional<Mend>();
}

}  // namespace

Result<Infeasibility> explain_infeasible(const SearchQuestion& question,
                                         std::span<const OtherDevice> others,
                                         SearchRecords& records) {
  Infeasibility why;
  SearchQuestion lean = quiet(question);
  lean.objective = Objective::kMemory;
  lean.budget = kNoLimit;
  lean.work_limit = kLeanestLimit;
  lean.effort = kLeanestEffort;
  Result<PlanResult> least = search(lean, records);
  if (!least) {
    return std::move(least).error();
  }
  const auto take = [&](MaybeMend mend) -> Status {
    if (!mend) {
      return std::move(mend).error();
    }
    if (*mend) {
      why.mends.push_back(std::move(**mend));
    }
    return ok();
  };
  if (least->best) {
    why.leanest = least->best;
    why.leanest->capacity = capacity_of(question, least->best->plan);
    why.proven = least->status == PlanStatus::kOptimal;
    const bool late = is_stopped(question);
    if (Status status = take(late ? MaybeMend(std::optional<Mend>())
                                  : more_memory(question, *least->best, records));
        !status) {
      return std::move(status).error();
    }
  }
  for (const auto& change : {more_gpus, shorter}) {
    if (Status status = take(change(question, records)); !status) {
      return std::move(status).error();
    }
  }
  for (const Axis axis : all_axes()) {
    const bool said =
        !question.space.constraints.of(axis).empty() || is_offered(question.space, axis);
    const bool fixed = axis != Axis::kGpus && axis != Axis::kSequence && said;
    if (!fixed || is_stopped(question)) {
      continue;
    }
    if (Status status = take(other_value(question, axis, records)); !status) {
      return std::move(status).error();
    }
  }
  const auto memory = std::ranges::find(why.mends, Mend::Kind::kBudget, &Mend::kind);
  const Bytes needed = memory == why.mends.end() ? Bytes{} : Bytes{memory->value};
  if (Status status = take(other_device(question, others, needed)); !status) {
    return std::move(status).error();
  }
  return why;
}

}  // namespace headroom::plan
