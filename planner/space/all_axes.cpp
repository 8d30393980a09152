#include "planner/space/all_axes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model_ir/plan/plan_words.h"

namespace headroom::plan {
namespace {

std::int64_t runtime_of_plan(const ir::ParallelPlan& plan) {
  const AxisWords words = words_of_axis(Axis::kRuntime);
  const auto found = std::ranges::find(words, plan.runtime);
  return found == words.end() ? -1 : found - words.begin();
}

std::int64_t optimizer_of_plan(const ir::ParallelPlan& plan) {
  ir::OptimizerPlan optimizer = plan.optimizer;
  if (optimizer.kind == ir::OptimizerKind::kAdamW && optimizer.form == ir::OptimizerForm::kFused &&
      value_of(plan, Axis::kOffload) > 0) {
    optimizer.form = ir::OptimizerForm::kForeach;  // The host's AdamW is called adamw, too.
  }
  const auto words = ir::optimizer_words();
  const auto found = std::ranges::find(words, optimizer, &ir::Word<ir::OptimizerPlan>::value);
  return found == words.end() ? -1 : found - words.begin();
}

std::int64_t frozen_of_plan(const ir::ParallelPlan& plan) {
  const int bits = plan.quant ? plan.quant->bits : kFrozenBits.front();
  return std::ranges::find(kFrozenBits, bits) - kFrozenBits.begin();
}

// -- Requirements of every framework. -----------------------------------------------------------

std::string runtime_rule(const SpaceQuestion& question) {
  const AxisValues& asked = question.constraints.of(Axis::kRuntime);
  const std::string own =
      asked.size() == 1 ? search_of_runtime(asked.front()).requirement(question) : "";
  return own.empty() ? "a framework that has the model and what is asked for" : own;
}

std::string gpus_rule(const SpaceQuestion& question) {
  return "GPUs that degrees divide and whose data-parallel ranks divide the batch (" +
         std::to_string(question.global_batch) + ")";
}

std::string precision_rule(const SpaceQuestion& /*question*/) {
  return "a precision that the framework has";
}

std::string frozen_rule(const SpaceQuestion& /*question*/) {
  return "16-bit, or with adapters (--lora) 8-bit or 4-bit where the framework has them";
}

std::string optimizer_rule(const SpaceQuestion& /*question*/) {
  return "an optimizer that the framework has";
}

std::string sequence_rule(const SpaceQuestion& question) {
  const std::int64_t positions = question.model.max_positions;
  return positions > 0
             ? "a length that the model has positions for (" + std::to_string(positions) + ")"
             : "a length that the framework has";
}

// -- Help. ---------------------------------------------------------------------------------------

void add_name(std::string& names, const std::string& name) {
  names += (names.empty() ? "" : ", ") + name;
}

std::string runtime_help() {
  std::string searched;
  std::string named;
  for (const FrameworkSearch* const framework : framework_searches()) {
    add_name(framework->only_if_named() ? named : searched, framework->runtime());
  }
  return std::string(Axis::kRuntime->help) + ": " + searched +
         (named.empty() ? "" : "; " + named + " only if they are named");
}

/// Which values of an axis frameworks have (`SearchAxis::help`), and the names of these frameworks.
using HelpGroups = std::vector<std::pair<std::string_view, std::string>>;

/// The groups of `axis`. Sets `all` to whether every framework has the axis.
HelpGroups help_groups(Axis axis, bool& all) {
  HelpGroups groups;
  all = true;
  for (const FrameworkSearch* const framework : framework_searches()) {
    const SearchAxis* const own = find_axis(*framework, axis);
    if (own == nullptr) {
      all = false;
      continue;
    }
    auto group = std::ranges::find(groups, own->help, &HelpGroups::value_type::first);
    if (group == groups.end()) {
      group = groups.insert(own->help.empty() ? groups.begin() : groups.end(), {own->help, ""});
    }
    add_name(group->second, framework->runtime());
  }
  return groups;
}

}  // namespace

std::span<const SearchAxis> common_axes() {
  static const std::array<SearchAxis, 6> rows = {
      {{.axis = Axis::kRuntime, .get = runtime_of_plan, .rule = runtime_rule},
       {.axis = Axis::kGpus,
        .get = [](const ir::ParallelPlan& plan) { return plan.world; },
        .rule = gpus_rule},
       {.axis = Axis::kPrecision,
        .get = [](const ir::ParallelPlan& plan) { return precision_value(plan.precision); },
        .rule = precision_rule},
       {.axis = Axis::kFrozenWeights, .get = frozen_of_plan, .rule = frozen_rule},
       {.axis = Axis::kOptimizer, .get = optimizer_of_plan, .rule = optimizer_rule},
       {.axis = Axis::kSequence,
        .get = [](const ir::ParallelPlan& plan) { return plan.workload.sequence; },
        .rule = sequence_rule}}};
  return rows;
}

const SearchAxis* find_common_axis(Axis axis) {
  const std::span<const SearchAxis> rows = common_axes();
  const auto found = std::ranges::find(rows, axis, &SearchAxis::axis);
  return found == rows.end() ? nullptr : &*found;
}

const SearchAxis* find_axis(const FrameworkSearch& framework, Axis axis) {
  for (const SearchAxis& row : framework.axes()) {
    if (!row.several && row.axis == axis) {
      return &row;
    }
  }
  return nullptr;
}

std::vector<Axis> all_axes() {
  std::vector<Axis> all;
  for (const SearchAxis& row : common_axes()) {
    all.push_back(row.axis);
  }
  for (const FrameworkSearch* const framework : framework_searches()) {
    for (const SearchAxis& row : framework->axes()) {
      if (!row.several && std::ranges::find(all, row.axis) == all.end()) {
        all.push_back(row.axis);
      }
    }
  }
  std::ranges::sort(all, {}, [](Axis axis) { return axis->order; });
  return all;
}

std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis) {
  const SearchAxis* const own = find_axis(search_of(plan), axis);
  const SearchAxis* const row = own != nullptr ? own : find_common_axis(axis);
  return row == nullptr ? axis->absent : row->get(plan);
}

std::vector<Alternative> halves_and_doubles(const ir::ParallelPlan& plan,
                                            std::span<const Axis> axes) {
  std::vector<Alternative> all;
  for (const Axis axis : axes) {
    const std::int64_t value = value_of(plan, axis);
    if (value > 1) {
      all.push_back({axis, value / 2});
    }
    all.push_back({axis, value * 2});
  }
  return all;
}

std::string help_of(Axis axis) {
  if (axis == Axis::kRuntime) {
    return runtime_help();
  }
  bool all = false;
  const HelpGroups groups = help_groups(axis, all);
  std::string text(axis->help);
  const bool is_common = find_common_axis(axis) != nullptr;
  for (const auto& [help, names] : groups) {
    if (help.empty()) {
      const bool has_whole = is_common || (all && groups.size() == 1);
      text += has_whole ? "" : " (" + names + ")";
      continue;
    }
    const bool is_first = &help == &groups.front().first;
    text += is_first && !is_common ? ": " : "; ";
    text += std::string(help) + " (" + names + ")";
  }
  return text;
}

}  // namespace headroom::plan
