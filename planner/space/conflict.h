#pragma once

#include <optional>
#include <vector>

#include "planner/space/search_space.h"

namespace headroom::plan {

/// Axes whose values together leave no plan. Without any one of them, some plan would be left.
struct Conflict {
  std::vector<Axis> axes;
};
/// `question` with only its GPUs as a constraint. The named runtimes are kept, too, if one of them
/// is searched only by name and they have a plan.
[[nodiscard]] SpaceQuestion freed(const SpaceQuestion& question);

/// The axes that the user has constrained.
[[nodiscard]] std::vector<Axis> given_axes(const SpaceQuestion& question);

/// The conflict that makes the space empty; nothing if the space is not empty, or if the GPUs and
/// the batch alone leave no plan.
///
/// Model:   one axis, else a pair, else the axes that remain when axes are freed one after the
///          other for as long as the space stays empty.
[[nodiscard]] std::optional<Conflict> conflict_of(const SpaceQuestion& question);

}  // namespace headroom::plan
