#pragma once

#include <cstdint>

#include "planner/space/search_space.h"

namespace headroom::plan {

/// The value that `plan` has on `axis`; for an axis that its runtime does not have, what the
/// runtime does: degrees of one, switches off.
[[nodiscard]] std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis);

/// Sequences of one forward pass: of torchtitan's pipelines those that go through together.
[[nodiscard]] std::int64_t sequences_of_pass(const ir::ParallelPlan& plan);

/// The arithmetic of `plan` on a single GPU: parameters in the type that its framework computes in.
[[nodiscard]] ir::Precision arithmetic_of(const ir::ParallelPlan& plan);

/// One name for values that ask for the same: a 16-bit precision is arithmetic on fp32 masters
/// under each of its names.
[[nodiscard]] std::int64_t canonical(Axis axis, std::int64_t value);

/// The values that plans of the space have on `axis`, in order. Of choices within cells (what is
/// recomputed, switches) those that the constraints allow.
[[nodiscard]] AxisValues values_in_space(const SpaceQuestion& question, Axis axis);

}  // namespace headroom::plan
