#pragma once

#include <optional>

#include "cli/arguments.h"
#include "cli/question.h"
#include "costmodel/expert_load.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// The effect of imbalanced token routing on the busiest expert-parallel rank.
struct RoutingAnswer {
  double imbalance = 0;
  cost::ExpertLoad load;
  Bytes balanced;  ///< Reserved peak if tokens are spread evenly.
  Bytes expected;  ///< Reserved peak with the expected load.
};

/// The answer to the option; nothing without it. The question's plan is given the load that one
/// step in twenty exceeds, so verdict, peak and time are those of that rank.
///
/// Errors:  kInvalidArgument for a number out of range, and for a plan whose experts are not on
///          several ranks or are padded to a capacity; those of `cost::estimate`.
[[nodiscard]] Result<std::optional<RoutingAnswer>> ask_routing(const Arguments& arguments,
                                                               Question& question);

}  // namespace headroom::cli
