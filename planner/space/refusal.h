#pragma once

#include <string>

#include "planner/space/search_space.h"

namespace headroom::plan {

/// The requirement on the values of an axis, with the figures of the model and the question, such
/// as "a divisor of the heads (32), ...".
[[nodiscard]] std::string rule_of(const SpaceQuestion& question, Axis axis);

/// Why a space is empty: the axes that contradict each other, with their values, the requirement on
/// each, and the nearest values that are possible.
[[nodiscard]] Error refusal_of(const SpaceQuestion& question);

}  // namespace headroom::plan
