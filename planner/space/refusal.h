#pragma once

#include <string>

#include "planner/space/search_space.h"

namespace headroom::plan {

/// What plans demand of an axis, with the figures of the model and the request: "a divisor of the
/// heads (32), ...".
[[nodiscard]] std::string rule_of(const SpaceQuestion& question, Axis axis);

/// Why a space is empty: the axes that contradict each other with their values, what plans demand
/// of each, and the nearest values that work.
[[nodiscard]] Error refusal_of(const SpaceQuestion& question);

}  // namespace headroom::plan
