#include "cli/plan_choices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "cli/scalars.h"
#include "cli/time_options.h"
#include "planner/search/evaluator.h"
#include "planner/search/timely_search.h"
#include "planner/space/all_axes.h"

namespace headroom::cli {
namespace {

using plan::Axis;
using plan::Objective;

/// The names of --gpu, each once.
std::vector<std::string> typed_gpus(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const std::string& name : split_at(arguments.value("gpu").value_or(""), ',')) {
    if (std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

/// Refuses options that mean one GPU type.
Status check_options_of_one(const Arguments& arguments) {
  std::vector<std::string_view> options(options_of_device().begin(), options_of_device().end());
  options.emplace_back("front");
  for (const std::string_view option : options) {
    if (arguments.has(option)) {
      return Error::invalid_argument(option, "several GPU types in --gpu", "one GPU type",
                                     "name one GPU, or leave out --" + std::string(option));
    }
  }
  return ok();
}

/// `arguments` for one of several GPU types.
Arguments arguments_of_type(const Arguments& arguments, const std::string& gpu,
                            const cost::RunCosts& costs) {
  Arguments own = arguments;
  own.remove("gpu");
  own.set("gpu", gpu);
  const auto set = [&own](const char* option, const std::optional<double>& value) {
    if (own.has(option)) {
      own.remove(option);
      if (value) {
        own.set(option, real_text(*value));
      }
    }
  };
  set("price", costs.dollars_per_gpu_hour);
  set("power", costs.watts_per_gpu);
  return own;
}

bool has_price(const cost::RunCosts& costs) {
  return costs.dollars_per_gpu_hour.has_value();
}

/// The worth of a replayed plan among plans on other GPU types; less is better. What a plan costs
/// without a price is only comparable if no type has one.
std::tuple<double, double> worth_among_types(Objective objective, const plan::RatedPlan& best,
                                             const std::optional<cost::StepEstimate>& estimate,
                                             const cost::RunCosts& costs) {
  const double per_token =
      step_of(best, estimate).value() / static_cast<double>(best.plan.workload.sequence);
  const auto gpus = static_cast<double>(best.plan.world);
  switch (objective) {
    case Objective::kThroughput:
      return {per_token, gpus};
    case Objective::kGpus:
      return {gpus, per_token};
    case Objective::kMemory:
      return {static_cast<double>(best.peak.value()), per_token};
    case Objective::kCost:
      return {gpus * per_token * costs.dollars_per_gpu_hour.value_or(1), per_token};
    case Objective::kMicroBatch:
      return {-static_cast<double>(plan::value_of(best.plan, Axis::kMicroBatch)), per_token};
    case Objective::kSequence:
      return {-static_cast<double>(best.plan.workload.sequence), per_token};
  }
  return {};
}

/// Whether a greater value of the objective is better.
bool seeks_most(Objective objective) {
  return objective == Objective::kMicroBatch || objective == Objective::kSequence;
}

/// The value of the best plan in the unit of `PlanResult::bound`.
double value_of_best(Objective objective, const plan::PlanResult& found) {
  const ir::ParallelPlan& plan = found.best->plan;
  switch (objective) {
    case Objective::kThroughput:
      return found.step().value();
    case Objective::kGpus:
      return static_cast<double>(plan.world);
    case Objective::kMemory:
      return static_cast<double>(found.best->peak.value());
    case Objective::kCost:
      return static_cast<double>(plan.world) * found.step().value();
    case Objective::kMicroBatch:
      return static_cast<double>(plan::value_of(plan, Axis::kMicroBatch));
    case Objective::kSequence:
      return static_cast<double>(plan.workload.sequence);
  }
  return 0;
}

/// What a unit of `PlanResult::bound` is worth among types. Steps of other sequence lengths compare
/// by the token.
double worth_of_unit(const GpuTypes& asked, const std::vector<plan::PlanResult>& found,
                     std::size_t type) {
  const PlanSearch& search = asked.types[type].search;
  if (search.objective != Objective::kThroughput && search.objective != Objective::kCost) {
    return 1;
  }
  const std::optional<plan::RatedPlan>& best = found[type].best;
  const ir::Workload& workload = best ? best->plan.workload : search.base.workload;
  const double price = search.objective == Objective::kCost
                           ? asked.run.costs[type].dollars_per_gpu_hour.value_or(1)
                           : 1;
  return price / static_cast<double>(workload.sequence);
}

/// The numbers of GPUs of the rows of one type.
plan::AxisValues row_counts(const PlanSearch& search, const plan::PlanResult& found) {
  constexpr std::size_t kMost = 16;
  plan::AxisValues counts = search.constraints.of(Axis::kGpus);
  if (counts.empty()) {
    counts = {search.base.world};
  }
  if (counts.size() > kMost) {
    const std::int64_t least = counts.front();
    const std::int64_t most = counts.back();
    std::erase_if(counts, [&](std::int64_t count) {
      const bool power = std::has_single_bit(static_cast<std::uint64_t>(count));
      return !power && count != least && count != most;
    });
  }
  if (found.best && std::ranges::find(counts, found.best->plan.world) == counts.end()) {
    counts.insert(std::ranges::lower_bound(counts, found.best->plan.world), found.best->plan.world);
  }
  return counts;
}

/// Whether plans on the same number of GPUs differ in the objective by more than their time.
bool differs_by_time_alone(Objective objective) {
  return objective == Objective::kThroughput || objective == Objective::kCost ||
         objective == Objective::kGpus;
}

void take(plan::PlanResult&& result, PlanChoice& choice) {
  choice.status = result.status;
  choice.best = std::move(result.best);
  choice.estimate = std::move(result.estimate);
}

}  // namespace

Seconds step_of(const plan::RatedPlan& plan, const std::optional<cost::StepEstimate>& estimate) {
  return estimate && estimate->time ? estimate->time->total : plan.time.total();
}

Result<GpuTypes> read_gpu_types(const Arguments& arguments) {
  const std::vector<std::string> names = typed_gpus(arguments);
  std::vector<cost::DeviceSpec> devices;
  GpuTypes asked;
  if (names.size() > 1) {
    if (Status status = check_options_of_one(arguments); !status) {
      return std::move(status).error();
    }
  }
  for (const std::string& name : names) {
    Arguments own = arguments_of_type(arguments, name, {});
    Result<PlanSearch> search = read_plan_search(own);
    if (!search) {
      return std::move(search).error();
    }
    const bool known =
        std::ranges::find(devices, search->device.name, &cost::DeviceSpec::name) != devices.end();
    if (!known) {
      devices.push_back(search->device);
      asked.types.push_back({.arguments = std::move(own), .search = std::move(search).value()});
    }
  }
  Result<TrainingRun> run = read_training_run(arguments, devices);
  if (!run) {
    return std::move(run).error();
  }
  asked.run = std::move(run).value();
  for (std::size_t i = 0; i < asked.types.size(); ++i) {
    GpuType& type = asked.types[i];
    cost::RunCosts typed = asked.run.costs[i];
    typed.watts_per_gpu = asked.run.rated_power ? std::nullopt : typed.watts_per_gpu;
    type.arguments = arguments_of_type(arguments, *type.arguments.value("gpu"), typed);
    if (asked.run.within) {
      const double batch = static_cast<double>(type.search.global_batch);
      type.search.longest = Seconds{asked.run.within->value() * batch / *asked.run.tokens};
    }
  }
  const bool by_cost = asked.types.front().search.objective == Objective::kCost;
  if (by_cost && asked.types.size() > 1 && std::ranges::none_of(asked.run.costs, has_price)) {
    return Error::invalid_argument("objective", "cost, with several GPU types and no price",
                                   "--price beside it",
                                   "add prices per GPU and hour, such as --price " +
                                       devices[0].name + "=2," + devices[1].name + "=3");
  }
  return asked;
}

std::size_t best_type(const GpuTypes& asked, const std::vector<plan::PlanResult>& found) {
  const Objective objective = asked.types.front().search.objective;
  const bool priced = std::ranges::any_of(asked.run.costs, has_price);
  const auto order = [&](std::size_t i) {
    const plan::PlanResult& result = found[i];
    const bool unpriced = objective == Objective::kCost && priced && !has_price(asked.run.costs[i]);
    const int state = result.best ? (unpriced ? 1 : 0) : result.late ? 2 : 3;
    std::tuple<double, double> worth{
        -static_cast<double>(asked.types[i].search.device.total.value()), 0};
    if (result.best) {
      worth = worth_among_types(objective, *result.best, result.estimate, asked.run.costs[i]);
    }
    return std::tuple(state, worth);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < found.size(); ++i) {
    best = order(i) < order(best) ? i : best;
  }
  return best;
}

void doubt_best_type(const GpuTypes& asked, const std::vector<plan::PlanResult>& found,
                     std::size_t type, plan::PlanResult& best) {
  const Objective objective = asked.types.front().search.objective;
  const bool priced = std::ranges::any_of(asked.run.costs, has_price);
  for (std::size_t i = 0; i < found.size() && best.best; ++i) {
    const plan::PlanResult& other = found[i];
    const bool open =
        other.status == plan::PlanStatus::kFeasible || other.status == plan::PlanStatus::kUnknown;
    const bool unpriced = objective == Objective::kCost && priced && !has_price(asked.run.costs[i]);
    if (i == type || !open || unpriced) {
      continue;
    }
    best.status = plan::PlanStatus::kFeasible;
    best.cut = best.cut || other.cut || (seeks_most(objective) && other.bound <= 0);
    const double bound =
        other.bound * worth_of_unit(asked, found, i) / worth_of_unit(asked, found, type);
    best.bound = seeks_most(objective) ? std::max(best.bound, bound) : std::min(best.bound, bound);
    const double value = value_of_best(objective, best);
    best.gap = std::abs(value - best.bound) / value;
  }
  if (best.best && best.cut) {
    best.bound = 0;
    best.gap = 1;
  }
}

bool has_choices(const GpuTypes& asked) {
  const plan::AxisValues& counts = asked.types.front().search.constraints.of(Axis::kGpus);
  return asked.types.size() > 1 || counts.size() > 1;
}

Result<plan::PlanResult> fastest_of(plan::SearchQuestion question, plan::SearchRecords& records) {
  question.longest = Seconds{0};
  question.objective = Objective::kThroughput;
  return plan::search_without_emptying(question, records);
}

Result<std::vector<PlanChoice>> choices_of(const GpuTypes& asked,
                                           const std::vector<plan::PlanResult>& found,
                                           std::span<plan::SearchRecords> records,
                                           const std::function<plan::StopSignal(double)>& within,
                                           const std::function<void(std::string_view)>& say) {
  std::vector<PlanChoice> choices;
  std::size_t left = 0;
  for (std::size_t i = 0; i < asked.types.size(); ++i) {
    left += row_counts(asked.types[i].search, found[i]).size();
  }
  for (std::size_t i = 0; i < asked.types.size(); ++i) {
    const PlanSearch& search = asked.types[i].search;
    for (const std::int64_t gpus : row_counts(search, found[i])) {
      PlanChoice choice{.type = i, .gpus = gpus, .best = {}, .estimate = {}};
      say("searching plans on " + std::to_string(gpus) + " x " + search.device.name);
      const bool by_time = differs_by_time_alone(search.objective);
      const bool known = by_time && found[i].status == plan::PlanStatus::kOptimal &&
                         found[i].best->plan.world == gpus;
      plan::SearchQuestion question = search.question();
      question.stop = within(1 / static_cast<double>(left--));
      question.replays = 1;
      question.space.constraints.of(Axis::kGpus) = {gpus};
      Result<plan::PlanResult> result = known     ? Result<plan::PlanResult>(found[i])
                                        : by_time ? fastest_of(question, records[i])
                                                  : plan::search_in_time(question, records[i]);
      if (result && result->late) {
        result = fastest_of(question, records[i]);
      }
      if (result && !result->best && found[i].best && found[i].best->plan.world == gpus) {
        result = found[i];  // The time did not suffice to find it again.
      }
      if (result) {
        take(std::move(result).value(), choice);
      } else if (plan::is_refusal(result.error())) {
        choice.in_space = false;
      } else {
        return std::move(result).error();
      }
      if (choice.best && search.longest.value() > 0) {
        const double allowed =
            search.longest.value() * static_cast<double>(choice.best->plan.workload.sequence);
        choice.late = step_of(*choice.best, choice.estimate).value() > allowed;
      }
      choices.push_back(std::move(choice));
    }
  }
  return choices;
}

}  // namespace headroom::cli
