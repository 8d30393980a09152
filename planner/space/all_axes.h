#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/space/framework_search.h"

/// The axes of all frameworks, read off the tables of their searches.
namespace headroom::plan {

/// The axes that every framework has, whose values the walk sets before a framework begins, with
/// what all of them demand.
[[nodiscard]] std::span<const SearchAxis> common_axes();
/// The row of `common_axes`; nullptr if frameworks have the axis each for itself.
[[nodiscard]] const SearchAxis* find_common_axis(Axis axis);
/// The row of a framework's own table; nullptr if it has none.
[[nodiscard]] const SearchAxis* find_axis(const FrameworkSearch& framework, Axis axis);

/// Every axis, in the order of `AxisTraits::order`.
[[nodiscard]] std::vector<Axis> all_axes();

/// The value that `plan` has on `axis`; for an axis that its framework does not have,
/// `AxisTraits::absent`.
[[nodiscard]] std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis);

/// Half and twice of the value of `plan` on each of these axes.
[[nodiscard]] std::vector<Alternative> halves_and_doubles(const ir::ParallelPlan& plan,
                                                          std::span<const Axis> axes);

/// What an axis is, and which frameworks have it: "pipeline stages (megatron, torchtitan)". Names
/// are left out if every framework has all of it.
[[nodiscard]] std::string help_of(Axis axis);

}  // namespace headroom::plan
