#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "costmodel/time/step_time.h"

namespace headroom::cli {

/// What is asked about time.
struct TimeRequest {
  std::optional<cost::Machine> machine;
  std::string missing;  ///< Why there is no machine; empty if there is.
  cost::RunCosts costs;
};

/// --node.
[[nodiscard]] OptionSpec node_option();
/// --node, --price, --power, --tokens.
[[nodiscard]] std::vector<OptionSpec> time_options();

/// Reads them. A device that nobody has measured the like of has no machine, which is no error
/// unless a node was asked for.
///
/// Errors:  kInvalidArgument for a number that is none or not positive; those of
///          `cost::load_machine` if --node is given.
[[nodiscard]] Result<TimeRequest> read_time_options(const Arguments& arguments,
                                                    const cost::DeviceSpec& device);

}  // namespace headroom::cli
