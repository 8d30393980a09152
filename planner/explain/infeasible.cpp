#include "planner/explain/infeasible.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "costmodel/host_memory.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/plan_limits.h"
#include "planner/explain/held.h"
#include "planner/explain/mend_search.h"
#include "planner/explain/more_memory.h"
#include "planner/search/evaluator.h"
#include "planner/space/all_axes.h"

namespace headroom::plan {
namespace {

/// Number of cells into which the search for the leanest plan looks, which is more than a space of
/// one node has. Cells are in ascending order of their memory bounds, so that the result is close
/// to the lowest peak. `Infeasibility::proven` says whether it is the lowest.
constexpr std::uint64_t kLeanestLimit = 400;

/// Events after which the search for the leanest plan ends (`SearchQuestion::effort`). Two cores
/// lower and replay some five million events in a second.
/// Source: tests/bench/results/infeasible_epyc-2vcpu_2026-11-30.md.
constexpr std::uint64_t kLeanestEffort = 8'000'000;

/// The least host memory of a node with which some plan fits, among the sizes that nodes have.
MaybeMend more_host_memory(const SearchQuestion& question) {
  constexpr std::array<std::int64_t, 9> kSizes = {96, 128, 192, 256, 384, 512, 768, 1024, 2048};
  if (!question.device.host) {
    return std::optional<Mend>();
  }
  const cost::HostSpec& host = *question.device.host;
  const AxisValues& given = question.space.constraints.of(Axis::kGpus);
  const std::int64_t gpus = given.empty() ? question.space.base.world : given.back();
  const std::int64_t ranks =
      host.memory_per_rank ? std::min<std::int64_t>(gpus, host.devices) : std::int64_t{1};
  const Bytes has = host.memory * ranks;
  SearchQuestion there = quiet(question);
  there.device.host->memory_per_rank = false;
  SearchRecords own;  // The records of the question are valid for its own host alone.
  bool open = false;
  there.device.host->memory = Bytes{kSizes.back() * kGiB};
  const Result<std::optional<PlanResult>> any = any_of(there, own);
  if (!any || !*any || !(*any)->best) {
    return any ? MaybeMend(std::optional<Mend>()) : any.error();
  }
  for (const std::int64_t size : kSizes) {
    there.device.host->memory = Bytes{size * kGiB};
    if (there.device.host->memory <= has || is_stopped(question)) {
      continue;
    }
    SearchRecords records;
    Mend mend = mend_to(Mend::Kind::kHost, there.device.host->memory.value());
    mend.proven = false;  // Exact only to the sizes that are tried.
    MaybeMend found = with_best(std::move(mend), there, records, open);
    if (!found || *found) {
      return found;
    }
  }
  return std::optional<Mend>();
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
  open = open || is_open(*found) || step > 1;
  if (!*found || !(*found)->best) {
    return std::optional<Mend>();
  }
  open = open || (*found)->gap > 0;
  Mend mend = mend_to(Mend::Kind::kGpus, (*found)->best->plan.world);
  take_plan(**found, mend);
  return std::optional(std::move(mend));
}

/// The fewest GPUs above `above` and up to `most` on which some plan fits, if some plan fits on
/// `most`, with a batch of `batch` sequences.
MaybeMend gpus_up_to(const SearchQuestion& question, std::int64_t above, std::int64_t most,
                     std::int64_t batch, SearchRecords& records, bool& open) {
  SearchQuestion there = held(question, Axis::kGpus, {most});
  there.space.global_batch = batch;
  const Result<std::optional<PlanResult>> any = any_of(there, records);
  if (!any) {
    return any.error();
  }
  if (!*any || !(*any)->best) {
    open = true;  // Some number below `most` may divide the model or the batch better.
    return std::optional<Mend>();
  }
  Mend mend = mend_to(Mend::Kind::kGpus, most);
  take_plan(**any, mend);
  MaybeMend fewer = fewest_gpus(question, above, most - 1, batch, records, open);
  if (!fewer) {
    return fewer;
  }
  if (*fewer) {
    mend = *std::move(*fewer);
    there.space.constraints.of(Axis::kGpus) = {mend.value};
  }
  mend.batch = batch == question.space.global_batch ? 0 : batch;
  mend.proven = mend.batch == 0 && !open;
  return with_better(std::move(mend), there, records);
}

/// The fewest GPUs on which some plan fits.
MaybeMend more_gpus(const SearchQuestion& question, SearchRecords& records) {
  constexpr int kMostDoublings = 8;
  const AxisValues& given = question.space.constraints.of(Axis::kGpus);
  const std::int64_t node = std::max(question.machine.topology.devices_per_node, 1);
  bool open = false;
  std::int64_t above = 0;
  std::int64_t most = given.empty() ? question.space.base.world : given.back();
  for (int doubling = 0; doubling < kMostDoublings && !is_stopped(question); ++doubling) {
    most = 2 * most <= node ? 2 * most : ceil_div(2 * most, node) * node;
    most = std::min(most, ir::kMostRanks);
    if (above >= most) {
      break;
    }
    // The batch of a step stays the same, unless it has fewer sequences than there are GPUs.
    const std::int64_t batch = question.space.global_batch;
    for (const std::int64_t sequences : {batch, std::max(batch, most)}) {
      MaybeMend mend = gpus_up_to(question, above, most, sequences, records, open);
      if (!mend || *mend) {
        return mend;
      }
      if (sequences == most || batch >= most) {
        break;
      }
    }
    above = most;
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
  if (whole <= kShortest) {
    return std::optional<Mend>();
  }
  const Result<std::optional<PlanResult>> least =
      any_of(held(question, Axis::kSequence, {kShortest}), records);
  if (!least) {
    return least.error();
  }
  const bool fits_shortest = *least && (*least)->best;
  if (!fits_shortest && *least && (*least)->refused.empty()) {
    return std::optional<Mend>();
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
  longest = longest == 0 && fits_shortest ? kShortest : longest;
  if (longest == 0) {
    return std::optional<Mend>();
  }
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
  if (axis == Axis::kRuntime) {
    values.clear();  // No framework is nearer than another.
  }
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
  // A plan of a framework that does not have the axis; or, where searches ended early, any plan.
  Mend mend = mend_to(Mend::Kind::kAxis, -1);
  mend.axis = axis;
  mend.proven = !open;
  MaybeMend found = with_best(mend, free, records, open);
  if (!found || !*found) {
    return found;
  }
  mend = *std::move(found).value();
  const ir::ParallelPlan& plan = mend.plan.plan;
  const bool has = axis != Axis::kRuntime && (find_common_axis(axis) != nullptr ||
                                              find_axis(search_of(plan), axis) != nullptr);
  mend.value = has ? value_of(plan, axis) : -1;
  return std::optional(std::move(mend));
}

/// The host's memory for each GPU; the greatest number if it is not judged.
std::int64_t host_share(const cost::DeviceSpec& device) {
  if (!device.host) {
    return INT64_MAX;
  }
  const std::int64_t devices = device.host->memory_per_rank ? 1 : device.host->devices;
  return device.host->memory.value() / std::max<std::int64_t>(devices, 1);
}

/// Whether `other` is unlikely to have room for a plan if those of the question need `needed`: on a
/// GPU of the same generation a plan takes almost the same memory, and on another one its
/// workspaces differ. With more host memory or with drives, more may be kept there.
bool is_too_small(const OtherDevice& other, const SearchQuestion& question, Bytes needed) {
  constexpr std::int64_t kPercentAlike = 95;
  constexpr std::int64_t kPercentOther = 75;
  const cost::DeviceSpec& own = question.device;
  const bool alike = own.traits.compute_major == other.device.traits.compute_major &&
                     own.traits.rocm == other.device.traits.rocm;
  const bool drives = other.device.host && other.device.host->nvme && own.host && !own.host->nvme;
  return !drives && host_share(other.device) <= host_share(own) &&
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
      open = true;
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

Result<Infeasibility> explain_infeasible(const SearchQuestion& question, const PlanResult& found,
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
  MaybeMend memory = std::optional<Mend>();
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
    if (!is_stopped(question)) {
      memory = more_memory(question, *least->best, records);
      if (!memory) {
        return std::move(memory).error();
      }
    }
  } else {
    why.least_host = least->least_host;
  }
  if (found.least_host) {
    if (Status status = take(more_host_memory(question)); !status) {
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
  const Bytes needed = *memory ? Bytes{(*memory)->value} : Bytes{};
  if (Status status = take(other_device(question, others, needed)); !status) {
    return std::move(status).error();
  }
  if (Status status = take(std::move(memory)); !status) {
    return std::move(status).error();
  }
  return why;
}

Result<std::vector<Mend>> other_hardware(const SearchQuestion& question,
                                         std::span<const OtherDevice> others,
                                         SearchRecords& records) {
  std::vector<Mend> mends;
  for (const auto& change :
       {MaybeMend(more_gpus(question, records)), other_device(question, others, Bytes{})}) {
    if (!change) {
      return change.error();
    }
    if (*change) {
      mends.push_back(**change);
    }
  }
  return mends;
}

}  // namespace headroom::plan
