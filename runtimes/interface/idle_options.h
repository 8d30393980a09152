#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// An option that a framework does not read, by its name on the command line.
struct IdleOption {
  std::string_view name;
  std::string_view instead;  ///< What to type instead; empty: leave the option out.
};

/// The error for the first option of `idle` that the plan sets, because the framework would ignore
/// it. `framework` is its title, "Megatron-Core".
///
/// Errors:  kInvalidArgument naming the option.
/// Requires names of common options (`interface/common_options.h`).
[[nodiscard]] std::optional<Error> idle_option(const ParallelPlan& plan,
                                               std::span<const IdleOption> idle,
                                               std::string_view framework);

}  // namespace headroom::ir
