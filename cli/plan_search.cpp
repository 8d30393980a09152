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
#include "cli/calibration.h"
#include "cli/host_options.h"
#include "cli/option_reader.h"
#include "cli/plan_file.h"
#include "cli/plan_options.h"
#include "cli/question.h"
#include "cli/routing.h"
#include "cli/scalars.h"
#include "cli/time_options.h"
#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"
#include "planner/search/timely_search.h"
#include "planner/space/all_axes.h"
#include "planner/space/framework_search.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

constexpr std::array<OptionSpec, 9> kSearchOptions = {
    {{"global-batch", "N", "8 for each GPU", "sequences per optimizer step, over all GPUs"},
     {"alloc-conf", "CONF", "expandable_segments:True",
      "value of PYTORCH_ALLOC_CONF, with which PyTorch is started"},
     {"objective", "WHAT", "throughput",
      "what makes a plan the best: throughput (most tokens/s), gpus (fewest), memory (lowest "
      "peak), "
      "cost (fewest GPU seconds), micro-batch (largest), sequence (longest)"},
     {"confidence", "PERCENT", "90",
      "chance to fit that the plan must have, by the errors on measured runs"},
     {"front", "", "",
      "also list every plan that no other plan beats in step time, memory and number of GPUs at "
      "once"},
     {"replay", "N", "1",
      "replay the best plan of each of the N best groups, and order these plans by the replayed "
      "time. A group is the plans of one framework with the same degrees, micro-batch and whatever "
      "else decides the sizes of tensors"},
     {"threads", "N", "all cores", "threads of the search; they do not change the answer"},
     {"work-limit", "N", "none", "search at most N groups of plans"},
     {"why", "AXIS=VALUE", "",
      "also say why the best plan does not have this value, such as tp=8"}}};

/// The options of `fit` that hold for every plan of a search: adapters and the images of a batch.
constexpr std::array<std::string_view, 4> kHeldOptions = {"lora", "qlora", "images", "padded"};

/// The default sequence, as in `fit`.
std::int64_t usual_sequence(const ir::ModelSpec& model) {
  constexpr std::int64_t kUsualLength = 2048;
  return model.max_positions > 0 ? std::min(kUsualLength, model.max_positions) : kUsualLength;
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

/// Options of a search that a plan file keeps: those that decide which plan is found.
bool decides_search(std::string_view option) {
  return std::ranges::find(kHeldOptions, option) != kHeldOptions.end() ||
         option == "global-batch" || option == "alloc-conf" || option == "objective";
}

/// `plan` without what belongs to a framework. Arithmetic in bf16 on fp32 masters has the name that
/// all frameworks understand.
ir::ParallelPlan base_of_plan(const ir::ParallelPlan& plan) {
  const plan::Axis axis = plan::Axis::kPrecision;
  const ir::ParallelPlan usual_recompute;
  ir::ParallelPlan base = plan;
  base.recompute = usual_recompute.recompute;
  base.recompute_every = usual_recompute.recompute_every;
  base.recompute_first = usual_recompute.recompute_first;
  const std::int64_t masters = plan::precision_value(ir::Precision::kBf16Master);
  if (plan::value_of(plan, axis) == masters) {
    base.precision = ir::Precision::kBf16Master;
  }
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    part->drop(base);
  }
  return base;
}

/// What no axis says: the usual, or that of a plan that was not searched.
Result<ir::ParallelPlan> base_before_options(const Arguments& arguments, const PlanSearch& search) {
  const ir::ModelSpec& model = search.model.spec;
  ir::ParallelPlan base;
  base.precision = search.device.bf16 ? ir::Precision::kBf16Master : ir::Precision::kFp16Master;
  base.workload.sequence = usual_sequence(model);
  base.allocator.expandable_segments = true;
  if (const std::optional<PlanDocument>& document = arguments.plan_document()) {
    const Result<ir::PlanFile> file = document->content.read(base);
    if (!file) {
      return file.error();
    }
    const bool own = arguments.value("runtime") == file->plan.runtime;
    return file->search || !own ? base : base_of_plan(file->plan);
  }
  return base;
}

/// Frozen weights have no masters: they are stored in 16 bits unless the user says otherwise.
Status read_adapters(const Arguments& arguments, const PlanSearch& search, ir::ParallelPlan& base) {
  if (Status status = read_adapter_options(arguments, base); !status) {
    return status;
  }
  if (base.lora) {
    base.precision = search.device.bf16 ? ir::Precision::kBf16 : ir::Precision::kFp16;
  }
  return ok();
}

Result<ir::ParallelPlan> read_base(const Arguments& arguments, const PlanSearch& search) {
  Result<ir::ParallelPlan> before = base_before_options(arguments, search);
  if (!before) {
    return before;
  }
  ir::ParallelPlan base = std::move(before).value();
  if (Status status = read_adapters(arguments, search, base); !status) {
    return std::move(status).error();
  }
  OptionReader reader(arguments);
  for (const std::string_view field : {"images", "padded_batch"}) {
    reader.field(*ir::find_field(ir::plan_options().fields, field), base);
  }
  if (reader.error()) {
    return *reader.error();
  }
  if (Status images = ir::check_images(search.model.spec, base); !images) {
    return std::move(images).error();
  }
  if (const auto text = arguments.value("alloc-conf")) {
    const Result<ir::AllocatorSettings> settings = parse_allocator_settings(*text, {});
    if (!settings) {
      return settings.error();
    }
    base.allocator = *settings;
  }
  return base;
}

/// --confidence and the errors that it is read off.
Status read_confidence(const Arguments& arguments, PlanSearch& search) {
  Result<std::vector<cost::ResidualSet>> residuals = load_residuals(arguments);
  if (!residuals) {
    return std::move(residuals).error();
  }
  search.residuals = std::move(residuals).value();
  if (std::optional<std::string> text = arguments.value("confidence")) {
    constexpr double kMost = 99.9;
    if (text->ends_with('%')) {
      text->pop_back();
    }
    const Result<double> percent = parse_real("confidence", *text, 0, kMost);
    if (!percent) {
      return percent.error();
    }
    search.confidence = *percent / 100;
  }
  return ok();
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

/// The question to which a plan that was not searched is one answer.
std::vector<ir::Assumption> search_of_plan(const ir::ParallelPlan& plan) {
  const std::int64_t replica =
      std::max<std::int64_t>(1, ir::runtime_of(plan).ranks_per_replica(plan));
  const std::int64_t batch = plan.workload.micro_batch * plan.workload.accumulation *
                             std::max<std::int64_t>(1, plan.world / replica);
  std::vector<ir::Assumption> options = {
      {.option = "runtime", .value = plan.runtime},
      {.option = "gpus", .value = std::to_string(plan.world)},
      {.option = "seq", .value = std::to_string(plan.workload.sequence)},
      {.option = "global-batch", .value = std::to_string(batch)}};
  if (plan.workload.images) {
    options.push_back({.option = "images", .value = text_of(*plan.workload.images)});
  }
  return options;
}

/// The options that the search of a plan file can have.
std::vector<std::string> filed_search_options() {
  std::vector<std::string> known;
  for (const plan::Axis axis : plan::all_axes()) {
    known.emplace_back(axis->option);
  }
  for (const OptionSpec& one : kSearchOptions) {
    if (decides_search(one.name)) {
      known.emplace_back(one.name);
    }
  }
  known.insert(known.end(), kHeldOptions.begin(), kHeldOptions.end());
  return known;
}

/// `arguments` with each value of a list once: "bf16,bfloat16", in the program's own spelling
/// "bf16,bf16", is "bf16".
Arguments with_unique_values(const Arguments& arguments) {
  Arguments with = arguments;
  for (const plan::Axis axis : plan::all_axes()) {
    const std::optional<std::string> text = arguments.value(axis->option);
    if (!text) {
      continue;
    }
    std::vector<std::string> seen;
    std::string all;
    for (const std::string& part : split_at(*text, ',')) {
      if (std::ranges::find(seen, part) == seen.end()) {
        seen.push_back(part);
        all += (seen.size() == 1 ? "" : ",") + part;
      }
    }
    with.remove(axis->option);
    with.set(axis->option, all);
  }
  return with;
}

/// Whether two lists of an option's values mean the same set: spelling, order and repetition do not
/// matter.
bool same_values(const std::string& option, const std::string& one, const std::string& other) {
  const std::vector<plan::Axis> axes = plan::all_axes();
  const auto axis = std::ranges::find_if(
      axes, [&option](plan::Axis candidate) { return candidate->option == option; });
  if (one == other || axis == axes.end()) {
    return one == other;
  }
  const Result<plan::AxisValues> left = plan::parse_axis(*axis, one);
  const Result<plan::AxisValues> right = plan::parse_axis(*axis, other);
  return left && right && *left == *right;
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
          .judge = cost::judge_by(residuals),
          .confidence = confidence,
          .longest = longest,
          .imbalance = imbalance,
          .room = cost::room_by(residuals, confidence),
          .stop = {},
          .memory = memory,
          .progress = {}};
}

namespace {

/// The lengths between `length` and its double, in eighths.
plan::AxisValues lengths_above(const ir::ModelSpec& model, std::int64_t length) {
  constexpr std::int64_t kParts = 8;
  plan::AxisValues lengths;
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::int64_t longer = length + part * length / kParts;
    if (model.max_positions == 0 || longer <= model.max_positions) {
      lengths.push_back(longer);
    }
  }
  return lengths;
}

/// Searches, and once more among longer sequences if the longest is asked for. If one of them fits,
/// they are in the space of `question` from then on.
Result<plan::PlanResult> find_longest(const PlanSearch& search, plan::SearchQuestion& question,
                                      plan::SearchRecords& records) {
  Result<plan::PlanResult> found = plan::search_without_emptying(question, records);
  if (!found || !found->best || !search.any_length || question.stop.asked()) {
    return found;
  }
  const std::int64_t length = found->best->plan.workload.sequence;
  const plan::AxisValues above = lengths_above(search.model.spec, length);
  plan::SearchQuestion longer = question;
  longer.space.constraints.of(plan::Axis::kSequence) = above;
  Result<plan::PlanResult> other = plan::search_in_time(longer, records);
  if (!other || !other->best || other->best->plan.workload.sequence <= length) {
    return found;
  }
  plan::AxisValues& all = question.space.constraints.of(plan::Axis::kSequence);
  all.insert(all.end(), above.begin(), above.end());
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  other->evaluated += found->evaluated;
  other->replays += found->replays;
  if (found->status != plan::PlanStatus::kOptimal) {  // Longer ones may fit, too.
    const auto value = static_cast<double>(other->best->plan.workload.sequence);
    other->status = plan::PlanStatus::kFeasible;
    other->cut = other->cut || found->cut;
    other->bound = other->cut ? 0 : std::max({found->bound, other->bound, value});
    other->gap = other->cut ? 1 : (other->bound - value) / value;
  }
  return other;
}

}  // namespace

Result<FoundPlans> find_plans(PlanSearch& search, plan::SearchQuestion& question,
                              plan::SearchRecords& records) {
  Result<plan::PlanResult> found = find_longest(search, question, records);
  if (!found) {
    return std::move(found).error();
  }
  search.constraints = question.space.constraints;
  const bool stopped = question.stop.asked();
  if (found->status != plan::PlanStatus::kInfeasible || found->late || !search.may_drop_masters ||
      stopped) {
    return FoundPlans{.result = std::move(found).value()};
  }
  // Frameworks that always keep masters have been searched.
  const std::int64_t plain = plan::precision_position(ir::Precision::kBf16);
  const std::int64_t masters = plan::precision_value(ir::Precision::kBf16Master);
  plan::Constraints constraints = search.constraints;
  plan::AxisValues runtimes;
  const std::vector<const plan::FrameworkSearch*> all = plan::framework_searches();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    const bool asked = constraints.of(plan::Axis::kRuntime).empty()
                           ? !all[i]->only_if_named()
                           : constraints.allows(plan::Axis::kRuntime, number);
    if (asked && all[i]->read(plan::Axis::kPrecision, plain) != masters) {
      runtimes.push_back(number);
    }
  }
  constraints.of(plan::Axis::kPrecision) = {plain};
  constraints.of(plan::Axis::kRuntime) = runtimes;
  plan::SearchQuestion without = question;
  without.space.constraints = constraints;
  if (runtimes.empty() || !plan::has_plans(without.space)) {
    return FoundPlans{.result = std::move(found).value()};
  }
  Result<plan::PlanResult> other = find_longest(search, without, records);
  if (!other || !other->best) {
    return FoundPlans{.result = std::move(found).value()};
  }
  constraints = without.space.constraints;
  constraints.of(plan::Axis::kRuntime) = search.constraints.of(plan::Axis::kRuntime);
  search.constraints = constraints;
  question.space.constraints = constraints;
  return FoundPlans{.result = std::move(other).value(), .dropped_masters = true};
}

std::vector<OptionSpec> plan_search_options() {
  std::vector<OptionSpec> options(device_options().begin(), device_options().end());
  for (const std::vector<OptionSpec>& some : {machine_options(), host_options()}) {
    options.insert(options.end(), some.begin(), some.end());
  }
  for (const plan::Axis axis : plan::all_axes()) {
    options.push_back({axis->option, axis->values, axis->usual, kept(plan::help_of(axis))});
  }
  for (const OptionSpec& option : plan_option_specs()) {
    if (std::ranges::find(kHeldOptions, option.name) != kHeldOptions.end()) {
      options.push_back(option);
    }
  }
  options.insert(options.end(), kSearchOptions.begin(), kSearchOptions.end());
  options.push_back(routing_option());
  options.push_back(plan_file_option());
  options.insert(options.end(), model_options().begin(), model_options().end());
  return options;
}

std::vector<ir::Assumption> search_assumptions(const Arguments& arguments) {
  std::vector<ir::Assumption> typed;
  const auto add = [&](std::string_view option) {
    if (const std::optional<std::string> value = arguments.value(option)) {
      typed.push_back({.option = std::string(option), .value = *value});
    }
  };
  for (const plan::Axis axis : plan::all_axes()) {
    add(axis->option);
  }
  for (const OptionSpec& option : kSearchOptions) {
    if (decides_search(option.name)) {
      add(option.name);
    }
  }
  for (const std::string_view option : kHeldOptions) {
    add(option);
  }
  return typed;
}

Result<Arguments> with_filed_search(const Arguments& arguments) {
  const std::optional<PlanDocument>& document = arguments.plan_document();
  if (!document) {
    return with_unique_values(arguments);
  }
  const Result<ir::PlanFile> file = document->content.read();
  if (!file) {
    return file.error();
  }
  const std::vector<ir::Assumption> options =
      file->search ? *file->search : search_of_plan(file->plan);
  Arguments with = with_unique_values(arguments);
  PlanDocument notes = *document;
  const std::vector<std::string> known = filed_search_options();
  for (const ir::Assumption& option : options) {
    if (Status valid = check_filed_option(document->name, "search", option.option, known); !valid) {
      return std::move(valid).error();
    }
    const std::optional<std::string> typed = with.value(option.option);
    if (!typed) {
      with.set(option.option, option.value);
    } else if (!same_values(option.option, *typed, option.value)) {
      notes.notes.push_back(
          typed_instead(document->name, "--" + option.option, option.value, *typed));
    }
  }
  with.set_plan_document(std::move(notes));
  return with;
}

std::vector<std::string> filed_notes(const Arguments& arguments) {
  const std::optional<PlanDocument>& document = arguments.plan_document();
  return document ? document->notes : std::vector<std::string>();
}

Result<PlanSearch> read_plan_search(const Arguments& arguments) {
  PlanSearch search;
  Result<LoadedModel> model = load_model_argument(arguments);
  if (!model) {
    return std::move(model).error();
  }
  search.model = std::move(model).value();
  const Result<std::optional<double>> imbalance = read_imbalance(arguments, search.model.spec);
  if (!imbalance) {
    return imbalance.error();
  }
  search.imbalance = imbalance->value_or(cost::kPublishedImbalance);
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
  Result<ir::ParallelPlan> base = read_base(arguments, search);
  if (!base) {
    return std::move(base).error();
  }
  search.base = std::move(base).value();
  search.may_drop_masters = search.base.precision == ir::Precision::kBf16Master &&
                            search.constraints.of(plan::Axis::kPrecision).empty();
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<cost::Machine> machine = load_asked_machine(arguments, folder->path, search.device);
  if (!machine) {
    return std::move(machine).error();
  }
  search.machine = std::move(machine).value();
  for (const Status& status : {read_search(arguments, search), read_batch(arguments, search),
                               read_confidence(arguments, search)}) {
    if (!status) {
      return status.error();
    }
  }
  if (const std::optional<PlanDocument>& document = arguments.plan_document()) {
    Result<ir::PlanFile> file = document->content.read(search.base);
    if (!file) {
      return std::move(file).error();
    }
    search.filed = std::move(file->plan);
  }
  plan::AxisValues& sequences = search.constraints.of(plan::Axis::kSequence);
  if (search.objective == plan::Objective::kSequence && sequences.empty()) {
    sequences = sequences_of(search.model.spec);
    search.any_length = true;
  }
  return search;
}

}  // namespace headroom::cli
