#include "planner/space/refusal.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "planner/space/conflict.h"
#include "planner/space/framework_search.h"

namespace headroom::plan {
namespace {

std::string values_text(Axis axis, const AxisValues& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ",") + value_text(axis, value);
  }
  return text;
}

std::string option_text(Axis axis, const AxisValues& values) {
  return "--" + std::string(option_of(axis)) + " " + values_text(axis, values);
}

/// `freed` with the constraints of these axes.
SpaceQuestion only(const SpaceQuestion& question, const std::vector<Axis>& axes) {
  SpaceQuestion some = freed(question);
  for (const Axis axis : axes) {
    some.constraints.of(axis) = question.constraints.of(axis);
  }
  return some;
}

/// Whether some plan of `some` has `value` on `axis`.
bool has_plans(SpaceQuestion some, Axis axis, std::int64_t value) {
  some.constraints.of(axis) = {value};
  return !cells_of(some).empty();
}

/// The frameworks that are searched only by name and that have a plan.
AxisValues named_runtimes_with_plans(const SpaceQuestion& some) {
  AxisValues values;
  const std::vector<const FrameworkSearch*> all = framework_searches();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto value = static_cast<std::int64_t>(i);
    if (all[i]->only_if_named() && has_plans(some, Axis::kRuntime, value)) {
      values.push_back(value);
    }
  }
  return values;
}

AxisValues working_runtimes(SpaceQuestion some) {
  some.constraints.of(Axis::kRuntime) = {};
  AxisValues values = values_in_space(some, Axis::kRuntime);
  std::ranges::copy(named_runtimes_with_plans(some), std::back_inserter(values));
  return values;
}

/// "use --tp 1,2,4": the values of `axis` that are nearest to the given one and possible with all
/// other constraints, or else with the other `axes`. If plans have no such axis, "leave out
/// --zero". Empty if no value is possible.
std::string working_text(const SpaceQuestion& question, const std::vector<Axis>& axes, Axis axis) {
  constexpr std::size_t kMost = 6;
  if (axis == Axis::kGpus) {
    return "";  // The other axes say what is possible.
  }
  const auto values_with = [&](std::vector<Axis> others) {
    std::erase(others, axis);
    const SpaceQuestion some = only(question, others);
    return axis == Axis::kRuntime ? working_runtimes(some) : values_in_space(some, axis);
  };
  std::vector<Axis> others = given_axes(question);
  AxisValues values = values_with(others);
  if (values.empty()) {
    others = axes;
    values = values_with(others);
  }
  if (values.empty() || axis == Axis::kRuntime) {
    return values.empty() ? "" : "use " + option_text(axis, values);
  }
  const auto asked = static_cast<double>(question.constraints.of(axis).front());
  std::ranges::stable_sort(values, {}, [&](std::int64_t value) {
    return std::abs(std::log2((static_cast<double>(value) + 1) / (asked + 1)));
  });
  values.resize(std::min(values.size(), kMost));
  std::erase(others, axis);
  const SpaceQuestion some = only(question, others);
  std::erase_if(values, [&](std::int64_t value) { return !has_plans(some, axis, value); });
  std::ranges::sort(values);
  return values.empty() ? "leave out --" + std::string(option_of(axis))
                        : "use " + option_text(axis, values);
}

/// A text such as "use --runtime NAME" with the frameworks that are searched only by name and that
/// satisfy the constraints. Empty if the user named a runtime or there is none.
std::string named_runtime_text(const SpaceQuestion& question) {
  const std::vector<Axis> given = given_axes(question);
  if (std::ranges::find(given, Axis::kRuntime) != given.end()) {
    return "";
  }
  const AxisValues runtimes = named_runtimes_with_plans(only(question, given));
  return runtimes.empty() ? "" : "use " + option_text(Axis::kRuntime, runtimes);
}

/// The requirements of the frameworks that have `axis`, in a form such as "NAME, NAME: a divisor of
/// the heads (32); other frameworks: 1".
std::string frameworks_rule(const SpaceQuestion& question, Axis axis) {
  std::vector<std::pair<std::string, std::string>> rules;  // The rule and its frameworks.
  bool all = true;
  for (const FrameworkSearch* const framework : framework_searches()) {
    const SearchAxis* const own = find_axis(*framework, axis);
    if (own == nullptr) {
      all = false;
      continue;
    }
    if (own->rule == nullptr) {
      continue;
    }
    std::string rule = own->rule(question);
    const auto same = std::ranges::find(rules, rule, &decltype(rules)::value_type::first);
    if (same == rules.end()) {
      rules.emplace_back(std::move(rule), framework->runtime());
    } else {
      same->second += ", " + framework->runtime();
    }
  }
  std::string text;
  for (const auto& [rule, names] : rules) {
    text += (text.empty() ? "" : "; ");
    text += all && rules.size() == 1 ? rule : names + ": " + rule;
  }
  const bool otherwise = !all && !axis->demanded;
  return text + (otherwise ? "; other frameworks: " + value_text(axis, axis->absent) : "");
}

/// Why no requested framework has a plan.
std::string runtime_rule(const SpaceQuestion& question) {
  const AxisValues& asked = question.constraints.of(Axis::kRuntime);
  const std::string own =
      asked.size() == 1 ? search_of_runtime(asked.front()).requirement(question) : "";
  return own.empty() ? "a framework that has the model and what is asked for" : own;
}

}  // namespace

std::string rule_of(const SpaceQuestion& question, Axis axis) {
  const std::string batch = std::to_string(question.global_batch);
  if (axis == Axis::kRuntime) {
    return runtime_rule(question);
  }
  if (axis == Axis::kGpus) {
    return "GPUs that degrees divide and whose data-parallel ranks divide the batch (" + batch +
           ")";
  }
  if (axis == Axis::kPrecision) {
    return "a precision that the framework has; 8 bits: megatron, on a GPU of compute capability "
           "8.9 or later (fp8-blockwise: 9.0 only, fp8-mxfp8: 10.0 or later), fp8-delayed without "
           "recomputation";
  }
  if (axis == Axis::kOptimizer) {
    return "an optimizer that the framework has (megatron: adamw)";
  }
  if (axis == Axis::kMicroBatch) {
    return "a divisor of the sequences of a data-parallel rank (a batch of " + batch +
           " over ranks that divide " + gpus_text(question) + " GPUs)";
  }
  if (axis == Axis::kSequence) {
    const std::int64_t positions = question.model.max_positions;
    return positions > 0
               ? "a length that the model has positions for (" + std::to_string(positions) + ")"
               : "a length that the framework has";
  }
  return frameworks_rule(question, axis);
}

Error refusal_of(const SpaceQuestion& question) {
  const std::optional<Conflict> conflict = conflict_of(question);
  if (!conflict) {
    return Error::invalid_argument(
        "gpus",
        gpus_text(question) + " with --global-batch " + std::to_string(question.global_batch),
        rule_of(question, Axis::kGpus), "change one of the two");
  }
  const std::vector<Axis>& axes = conflict->axes;
  std::string got;
  std::string wanted;
  std::string fix;
  for (const Axis axis : axes) {
    got += (got.empty() ? "" : " with ") + option_text(axis, question.constraints.of(axis));
    const std::string rule =
        (axes.size() > 1 ? std::string(option_of(axis)) + ": " : "") + rule_of(question, axis);
    wanted += (wanted.empty() ? "" : "; ") + rule;
    std::string working = working_text(question, axes, axis);
    if (!fix.empty() && working.starts_with("use ")) {
      working.erase(0, 4);  // The text becomes "use --tp 1, or --pp 1".
    }
    fix += (fix.empty() || working.empty() ? "" : ", or ") + working;
  }
  if (const std::string named = named_runtime_text(question); !named.empty()) {
    fix += (fix.empty() ? "" : ", or ") + named;
  }
  return Error::invalid_argument(option_of(axes.front()), got, wanted,
                                 fix.empty() ? "leave one of them out" : fix);
}

}  // namespace headroom::plan
