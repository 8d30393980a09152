#include "planner/space/refusal.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "planner/space/all_axes.h"

namespace headroom::plan {
namespace {

/// `question` with only its GPUs as a constraint. The named runtimes are kept, too, if one of them
/// is searched only by name and they have a plan.
SpaceQuestion freed(const SpaceQuestion& question) {
  SpaceQuestion some = question;
  some.constraints = {};
  some.constraints.of(Axis::kGpus) = question.constraints.of(Axis::kGpus);
  const AxisValues& runtimes = question.constraints.of(Axis::kRuntime);
  if (std::ranges::any_of(runtimes, [](std::int64_t runtime) {
        return search_of_runtime(runtime).only_if_named();
      })) {
    some.constraints.of(Axis::kRuntime) = runtimes;
    if (!has_plans(some)) {
      some.constraints.of(Axis::kRuntime) = {};
    }
  }
  return some;
}

/// The axes that the user has constrained.
std::vector<Axis> given_axes(const SpaceQuestion& question) {
  std::vector<Axis> given;
  for (const Axis axis : all_axes()) {
    if (!question.constraints.of(axis).empty()) {
      given.push_back(axis);
    }
  }
  return given;
}

/// A smallest subset of `given` that leaves no plan: one axis, else a pair, else axes of which none
/// can be freed.
std::vector<Axis> least_conflict(const std::vector<Axis>& given,
                                 const std::function<bool(const std::vector<Axis>&)>& is_empty) {
  for (const Axis one : given) {
    if (is_empty({one})) {
      return {one};
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    for (std::size_t j = i + 1; j < given.size(); ++j) {
      if (is_empty({given[i], given[j]})) {
        return {given[i], given[j]};
      }
    }
  }
  std::vector<Axis> kept = given;
  for (const Axis axis : given) {
    std::vector<Axis> fewer = kept;
    std::erase(fewer, axis);
    kept = is_empty(fewer) ? fewer : kept;
  }
  return kept;
}

/// The conflict that makes the space empty: axes whose values together leave no plan; without any
/// one of them, some plan would be left. Nothing if the space is not empty, or if the GPUs and the
/// batch alone leave no plan.
///
/// Model:   one axis, else a pair, else the axes that remain when axes are freed one after the
///          other for as long as the space stays empty.
std::optional<std::vector<Axis>> conflict_of(const SpaceQuestion& question) {
  const std::vector<Axis> given = given_axes(question);
  const auto beside = [&](SpaceQuestion some, const std::vector<Axis>& kept) {
    for (const Axis axis : kept) {
      some.constraints.of(axis) = question.constraints.of(axis);
    }
    return some;
  };
  SpaceQuestion least = freed(question);
  const auto is_empty = [&](const std::vector<Axis>& kept) {
    return !has_plans(beside(least, kept));
  };
  if (!is_empty(given) || is_empty({})) {
    return std::nullopt;
  }
  std::vector<Axis> conflict = least_conflict(given, is_empty);
  // The runtimes that `freed` kept may be what excludes the others.
  if (!std::exchange(least.constraints.of(Axis::kRuntime), {}).empty() &&
      std::ranges::find(conflict, Axis::kRuntime) == conflict.end() && !is_empty(conflict)) {
    conflict.insert(conflict.begin(), Axis::kRuntime);
  }
  return conflict;
}

/// The frameworks of the question: those that are named, or all.
std::vector<const FrameworkSearch*> asked_frameworks(const SpaceQuestion& question) {
  const AxisValues& named = question.constraints.of(Axis::kRuntime);
  if (named.empty()) {
    return framework_searches();
  }
  std::vector<const FrameworkSearch*> asked;
  for (const std::int64_t runtime : named) {
    asked.push_back(&search_of_runtime(runtime));
  }
  return asked;
}

/// The names of the frameworks with this axis: "NAME, NAME".
std::string names_with(const std::vector<const FrameworkSearch*>& frameworks, Axis axis) {
  std::string names;
  for (const FrameworkSearch* const framework : frameworks) {
    if (find_axis(*framework, axis) != nullptr) {
      names += (names.empty() ? "" : ", ") + framework->runtime();
    }
  }
  return names;
}

/// Axes that only frameworks with the axis can satisfy.
std::vector<Axis> owned_axes(const SpaceQuestion& question) {
  std::vector<Axis> owned;
  for (const Axis axis : given_axes(question)) {
    const AxisValues& asked = question.constraints.of(axis);
    const bool may_lack = !axis->demanded && std::ranges::find(asked, axis->absent) != asked.end();
    if (find_common_axis(axis) == nullptr && !may_lack) {
      owned.push_back(axis);
    }
  }
  return owned;
}

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
  return has_plans(some);
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
      same->second += " and " + framework->runtime();
    }
  }
  std::string text;
  for (const auto& [rule, names] : rules) {
    text += (text.empty() ? "" : "; ");
    text += rules.size() == 1 ? rule : "with " + names + " " + rule;
  }
  const bool otherwise =
      rules.size() > 1 && !all && !axis->demanded && find_common_axis(axis) == nullptr;
  return text + (otherwise ? "; with other frameworks " + value_text(axis, axis->absent) : "");
}

/// The error for an axis that no named framework has.
std::optional<Error> lacking_framework(const SpaceQuestion& question) {
  const AxisValues& named = question.constraints.of(Axis::kRuntime);
  for (const Axis axis : owned_axes(question)) {
    if (named.empty() || !names_with(asked_frameworks(question), axis).empty()) {
      continue;
    }
    const std::string asked = option_text(axis, question.constraints.of(axis));
    const std::string working = working_text(question, {Axis::kRuntime, axis}, Axis::kRuntime);
    return Error::invalid_argument(
        option_of(Axis::kRuntime), values_text(Axis::kRuntime, named) + " cannot have " + asked, {},
        (working.empty() ? "" : working + ", or ") + "leave out --" + std::string(option_of(axis)));
  }
  return std::nullopt;
}

/// The error for two axes that no framework has both.
std::optional<Error> foreign_axes(const SpaceQuestion& question) {
  const std::vector<const FrameworkSearch*> frameworks = asked_frameworks(question);
  const std::vector<Axis> owned = owned_axes(question);
  for (std::size_t i = 0; i < owned.size(); ++i) {
    for (std::size_t j = i + 1; j < owned.size(); ++j) {
      const bool has_both = std::ranges::any_of(frameworks, [&](const FrameworkSearch* framework) {
        return find_axis(*framework, owned[i]) != nullptr &&
               find_axis(*framework, owned[j]) != nullptr;
      });
      if (has_both) {
        continue;
      }
      const std::string one(option_of(owned[i]));
      const std::string other(option_of(owned[j]));
      return Error::invalid_argument(
          one,
          values_text(owned[i], question.constraints.of(owned[i])) + " and " +
              option_text(owned[j], question.constraints.of(owned[j])) +
              ": no framework has both (" + one + ": " + names_with(frameworks, owned[i]) + "; " +
              other + ": " + names_with(frameworks, owned[j]) + ")",
          {}, "leave out --" + one + " or --" + other);
    }
  }
  return std::nullopt;
}

/// The error for a model or a GPU for which the only named framework has no plan.
std::optional<Error> unfit_framework(const SpaceQuestion& question, const std::vector<Axis>& axes) {
  const AxisValues& named = question.constraints.of(Axis::kRuntime);
  if (axes != std::vector<Axis>{Axis::kRuntime} || named.size() != 1) {
    return std::nullopt;
  }
  const std::string rule = search_of_runtime(named.front()).requirement(question);
  const std::string model = question.model.name.empty() ? "this model" : question.model.name;
  return rule.empty() ? std::nullopt
                      : std::optional(Error::invalid_argument(
                            option_of(Axis::kRuntime),
                            values_text(Axis::kRuntime, named) + " with " + model, rule));
}

}  // namespace

std::string rule_of(const SpaceQuestion& question, Axis axis) {
  const std::string own = frameworks_rule(question, axis);
  const SearchAxis* const common = find_common_axis(axis);
  return common == nullptr ? own : common->rule(question) + (own.empty() ? "" : "; " + own);
}

Error refusal_of(const SpaceQuestion& question) {
  const std::optional<std::vector<Axis>> axes = conflict_of(question);
  if (!axes) {
    return Error::invalid_argument(
        "gpus",
        gpus_text(question) + " with --global-batch " + std::to_string(question.global_batch),
        rule_of(question, Axis::kGpus), "change one of the two");
  }
  for (const std::optional<Error>& plain : {lacking_framework(question), foreign_axes(question)}) {
    if (plain) {
      return *plain;
    }
  }
  std::string got;
  std::string wanted;
  std::string fix;
  for (const Axis axis : *axes) {
    const AxisValues& asked = question.constraints.of(axis);
    // The key names the first option, so that its value suffices where it is the only one.
    got += axes->size() == 1 ? values_text(axis, asked)
                             : (got.empty() ? "" : " with ") + option_text(axis, asked);
    const std::string rule =
        (axes->size() > 1 ? std::string(option_of(axis)) + ": " : "") + rule_of(question, axis);
    wanted += (wanted.empty() ? "" : "; ") + rule;
    std::string working = working_text(question, *axes, axis);
    if (!fix.empty() && working.starts_with("use ")) {
      working.erase(0, 4);  // The text becomes "use --tp 1, or --pp 1".
    }
    fix += (fix.empty() || working.empty() ? "" : ", or ") + working;
  }
  if (const std::string named = named_runtime_text(question); !named.empty()) {
    fix += (fix.empty() ? "" : ", or ") + named;
  }
  if (std::optional<Error> unfit = unfit_framework(question, *axes)) {
    unfit->fix = fix;
    return std::move(*unfit);
  }
  return Error::invalid_argument(option_of(axes->front()), got, wanted,
                                 fix.empty() ? "leave one of them out" : fix);
}

}  // namespace headroom::plan
