#pragma once

#include <optional>
#include <vector>

#include "planner/space/search_space.h"

namespace headroom::plan {

/// Axes whose values alone leave no plan, as few as can be: without any of them some would be left.
struct Conflict {
  std::vector<Axis> axes;
};
/// `question` with nothing said but the GPUs; and the runtimes if one of them is searched only if
/// it is named and they have a plan.
[[nodiscard]] SpaceQuestion freed(const SpaceQuestion& question);

/// The axes of which something was said.
[[nodiscard]] std::vector<Axis> given_axes(const SpaceQuestion& question);

/// Why the space is empty, if it is; nothing where the GPUs and the batch alone leave no plan.
///
/// Model:   one axis, else a pair, else what is left when axes are freed one after the other for as
///          long as the space stays empty.
[[nodiscard]] std::optional<Conflict> conflict_of(const SpaceQuestion& question);

}  // namespace headroom::plan
