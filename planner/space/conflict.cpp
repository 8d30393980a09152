#include "planner/space/conflict.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "planner/space/framework_search.h"

namespace headroom::plan {
namespace {

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

}  // namespace

SpaceQuestion freed(const SpaceQuestion& question) {
  SpaceQuestion some = question;
  some.constraints = {};
  some.constraints.of(Axis::kGpus) = question.constraints.of(Axis::kGpus);
  const AxisValues& runtimes = question.constraints.of(Axis::kRuntime);
  if (std::ranges::any_of(runtimes, [](std::int64_t runtime) {
        return search_of_runtime(runtime).only_if_named();
      })) {
    some.constraints.of(Axis::kRuntime) = runtimes;
    if (cells_of(some).empty()) {
      some.constraints.of(Axis::kRuntime) = {};
    }
  }
  return some;
}

std::vector<Axis> given_axes(const SpaceQuestion& question) {
  std::vector<Axis> given;
  for (const Axis axis : all_axes()) {
    if (!question.constraints.of(axis).empty()) {
      given.push_back(axis);
    }
  }
  return given;
}

std::optional<Conflict> conflict_of(const SpaceQuestion& question) {
  const std::vector<Axis> given = given_axes(question);
  const auto beside = [&](SpaceQuestion some, const std::vector<Axis>& kept) {
    for (const Axis axis : kept) {
      some.constraints.of(axis) = question.constraints.of(axis);
    }
    return some;
  };
  SpaceQuestion least = freed(question);
  const auto is_empty = [&](const std::vector<Axis>& kept) {
    return cells_of(beside(least, kept)).empty();
  };
  if (!is_empty(given) || is_empty({})) {
    return std::nullopt;
  }
  Conflict conflict{least_conflict(given, is_empty)};
  // The runtimes that `freed` kept may be what excludes the others.
  if (!std::exchange(least.constraints.of(Axis::kRuntime), {}).empty() &&
      std::ranges::find(conflict.axes, Axis::kRuntime) == conflict.axes.end() &&
      !is_empty(conflict.axes)) {
    conflict.axes.insert(conflict.axes.begin(), Axis::kRuntime);
  }
  return conflict;
}

}  // namespace headroom::plan
