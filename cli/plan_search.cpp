#include "cli/plan_search.h"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/plan_options.h"
#include "cli/question.h"
#include "cli/scalars.h"
#include "cli/time_options.h"
#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"
#include "planner/space/all_axes.h"

namespace headroom::cli {
namespace {

constexpr std::array<OptionSpec, 4> kMachineOptions = {
    {{"node", "NAME", "one of the catalogue with this GPU",
      "machine that holds the GPUs (headroom catalog nodes lists them)"},
     {"network", "RATE", "that of the node",
      "bandwidth of each GPU to other nodes in one direction, as 400Gbit/s or 50GB/s"},
     {"performance", "FILE", "configs/performance",
      "JSON file with what this GPU achieves, measured on your own machine"},
     {"budget", "SIZE", "all that the GPU has", "GPU memory that the run may use, as 70GiB"}}};

constexpr std::array<OptionSpec, 8> kSearchOptions = {
    {{"global-batch", "N", "8 for each GPU", "sequences per optimizer step, over all GPUs"},
     {"alloc-conf", "CONF", "expandable_segments:True",
      "value of PYTORCH_ALLOC_CONF, with which PyTorch is started"},
     {"objective", "WHAT", "throughput",
      "what the best plan has: throughput (most tokens/s), gpus (fewest), memory (lowest peak), "
      "cost (fewest GPU seconds), micro-batch (largest), sequence (longest)"},
     {"front", "", "",
      "also list every plan that no other plan beats in step time, memory and number of GPUs at "
      "once"},
     {"replay", "N", "1", "replay the best plans of N groups, and order them by the replayed time"},
     {"threads", "N", "all cores", "threads of the search; they do not change the answer"},
     {"work-limit", "N", "none", "search at most N groups of plans"},
     {"why", "AXIS=VALUE", "", "also say why the best plan does not have this value, as tp=8"}}};

/// The default sequence, as in `fit`.
std::int64_t usual_sequence(const ir::ModelSpec& model) {
  constexpr std::int64_t kUsual = 2048;
  return model.max_positions > 0 ? std::min(kUsual, model.max_positions) : kUsual;
}

/// The lengths among which the longest possible one is searched.
plan::AxisValues sequences_of(const ir::ModelSpec& model) {
  plan::AxisValues lengths;
  const std::int64_t most = model.max_positions > 0 ? model.max_positions : ir::kMostSequence;
  for (std::int64_t length = 512; length <= most; length *= 2) {
    lengths.push_back(length);
  }
  return lengths;
}

/// A text that lives as long as the program: what `OptionSpec` refers to.
std::string_view kept(std::string text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> texts;
  const std::lock_guard lock(mutex);
  return *texts.insert(std::move(text)).first;
}

Result<plan::Constraints> read_constraints(const Arguments& arguments) {
  plan::Constraints constraints;
  for (const plan::Axis axis : plan::all_axes()) {
    const std::optional<std::string> text = arguments.value(axis->option);
    if (!text) {
      continue;
    }
    Result<plan::AxisValues> values = plan::parse_axis(axis, *text);
    if (!values) {
      return std::move(values).error();
    }
    constraints.of(axis) = std::move(values).value();
  }
  return constraints;
}

Result<ir::ParallelPlan> read_base(const Arguments& arguments, const ir::ModelSpec& model) {
  ir::ParallelPlan base;
  base.precision = ir::Precision::kBf16Master;
  base.sequence = usual_sequence(model);
  base.allocator.expandable_segments = true;
  if (const auto text = arguments.value("alloc-conf")) {
    const Result<ir::AllocatorSettings> settings = parse_allocator_settings(*text, {});
    if (!settings) {
      return settings.error();
    }
    base.allocator = *settings;
  }
  return base;
}

Status read_search(const Arguments& arguments, PlanSearch& search) {
  if (const auto text = arguments.value("objective")) {
    const Result<plan::Objective> objective =
        ir::parse_word(plan::objective_words(), "objective", *text);
    if (!objective) {
      return objective.error();
    }
    search.objective = *objective;
  }
  std::int64_t threads = std::max(1U, std::thread::hardware_concurrency());
  if (const auto text = arguments.value("threads")) {
    const Result<std::int64_t> number = parse_whole("threads", *text, 1, 1024);
    if (!number) {
      return number.error();
    }
    threads = *number;
  }
  search.threads = static_cast<int>(threads);
  if (const auto text = arguments.value("work-limit")) {
    const Result<std::int64_t> number = parse_whole("work-limit", *text, 1, std::int64_t{1} << 40);
    if (!number) {
      return number.error();
    }
    search.work_limit = static_cast<std::uint64_t>(*number);
  }
  if (const auto text = arguments.value("replay")) {
    constexpr std::int64_t kMost = 64;
    const Result<std::int64_t> number = parse_whole("replay", *text, 1, kMost);
    if (!number) {
      return number.error();
    }
    search.replays = static_cast<std::size_t>(*number);
  }
  search.front = arguments.has("front");
  return ok();
}

Status read_batch(const Arguments& arguments, PlanSearch& search) {
  const plan::AxisValues& gpus = search.constraints.of(plan::Axis::kGpus);
  const std::int64_t most = gpus.empty() ? 1 : gpus.back();
  if (most > ir::kMostRanks || (!gpus.empty() && gpus.front() < 1)) {
    return Error::invalid_argument("gpus", *arguments.value("gpus"),
                                   "numbers from 1 to " + std::to_string(ir::kMostRanks));
  }
  constexpr std::int64_t kPerGpu = 8;
  search.global_batch = kPerGpu * most;
  if (const auto text = arguments.value("global-batch")) {
    const Result<std::int64_t> number =
        parse_whole("global-batch", *text, 1, ir::kMostAccumulation);
    if (!number) {
      return number.error();
    }
    search.global_batch = *number;
  }
  return ok();
}

}  // namespace

plan::SearchQuestion PlanSearch::question() const {
  return {.space = {.model = model.spec,
                    .base = base,
                    .global_batch = global_batch,
                    .constraints = constraints,
                    .device = device.traits},
          .machine = machine,
          .device = device,
          .budget = budget,
          .objective = objective,
          .pruning = {},
          .threads = threads,
          .work_limit = work_limit,
          .front = front,
          .replays = replays,
          .stop = nullptr,
          .progress = {}};
}

std::vector<OptionSpec> plan_search_options() {
  std::vector<OptionSpec> options = {
      {"gpu", "NAME", "",
       "name of the GPU, as h100 (headroom catalog gpus lists them), or a .json file"}};
  options.insert(options.end(), kMachineOptions.begin(), kMachineOptions.end());
  for (const plan::Axis axis : plan::all_axes()) {
    options.push_back({axis->option, axis->values, axis->usual, kept(plan::help_of(axis))});
  }
  options.insert(options.end(), kSearchOptions.begin(), kSearchOptions.end());
  options.insert(options.end(), model_options().begin(), model_options().end());
  return options;
}

Result<PlanSearch> read_plan_search(const Arguments& arguments) {
  PlanSearch search;
  Result<LoadedModel> model = load_model_argument(arguments);
  if (!model) {
    return std::move(model).error();
  }
  search.model = std::move(model).value();
  Result<cost::DeviceSpec> device = read_gpu(arguments);
  if (!device) {
    return std::move(device).error();
  }
  search.device = std::move(device).value();
  const Result<Bytes> budget = read_budget(arguments);
  if (!budget) {
    return budget.error();
  }
  search.budget = *budget;
  Result<plan::Constraints> constraints = read_constraints(arguments);
  if (!constraints) {
    return std::move(constraints).error();
  }
  search.constraints = std::move(constraints).value();
  Result<ir::ParallelPlan> base = read_base(arguments, search.model.spec);
  if (!base) {
    return std::move(base).error();
  }
  search.base = std::move(base).value();
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<cost::Machine> machine = load_asked_machine(arguments, folder->path, search.device);
  if (!machine) {
    return std::move(machine).error();
  }
  search.machine = std::move(machine).value();
  for (const Status& status : {read_search(arguments, search), read_batch(arguments, search)}) {
    if (!status) {
      return status.error();
    }
  }
  plan::AxisValues& sequences = search.constraints.of(plan::Axis::kSequence);
  if (search.objective == plan::Objective::kSequence && sequences.empty()) {
    sequences = sequences_of(search.model.spec);
  }
  return search;
}

}  // namespace headroom::cli
