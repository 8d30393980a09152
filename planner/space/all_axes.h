#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/space/framework_search.h"

/// The axes of all frameworks, read off the tables of their searches.
namespace headroom::plan {

/// The axes that every framework has, with the requirements that do not depend on the framework.
/// The walk sets their values before a framework begins.
[[nodiscard]] std::span<const SearchAxis> common_axes();
/// The row of `axis` in `common_axes`; nullptr if it has none.
[[nodiscard]] const SearchAxis* find_common_axis(Axis axis);
/// How one framework implements an axis; nullptr if its own table does not have the axis.
[[nodiscard]] const SearchAxis* find_axis(const FrameworkSearch& framework, Axis axis);

/// Every axis, in the order of `AxisTraits::order`.
[[nodiscard]] std::vector<Axis> all_axes();

/// The value of `plan` on `axis`. For an axis that its framework does not have,
/// `AxisTraits::absent`.
[[nodiscard]] std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis);

/// Half and twice the value of `plan` on each of these axes.
[[nodiscard]] std::vector<Alternative> halves_and_doubles(const ir::ParallelPlan& plan,
                                                          std::span<const Axis> axes);

/// The help of an axis with the frameworks that have it: "pipeline stages (megatron, torchtitan)".
/// The names are left out if every framework has all values.
[[nodiscard]] std::string help_of(Axis axis);

}  // namespace headroom::plan
