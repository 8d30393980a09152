#pragma once

#include <optional>

#include "cli/arguments.h"
#include "cli/question.h"
#include "costmodel/expert_load.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// What uneven routing of tokens to experts does to the busiest rank.
struct RoutingAnswer {
  double imbalance = 0;
  cost::ExpertLoad load;
  Bytes balanced;  ///< Reserved at the peak with every token spread evenly.
  Bytes expected;  ///< The same with the expected load.
};

/// --routing-imbalance.
[[nodiscard]] OptionSpec routing_option();

/// What the option asks for; nothing without it. The question's plan is given the load that one
/// step in twenty exceeds: verdict, peak and time are then that rank's.
///
/// Errors:  kInvalidArgument for a number out of range, and for a plan whose experts do not lie on
///          several ranks or are padded to a capacity; those of `cost::estimate`.
[[nodiscard]] Result<std::optional<RoutingAnswer>> ask_routing(const Arguments& arguments,
                                                               Question& question);

}  // namespace headroom::cli
