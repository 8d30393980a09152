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

/// --node, --network, --performance.
[[nodiscard]] std::vector<OptionSpec> machine_options();
/// The machine that they ask for: `cost::load_machine`, with the figures of a file of one's own in
/// place of the catalogue's, and another network.
///
/// Errors:  those of `cost::load_machine` and `cost::read_performance`; kInvalidArgument for a file
///          measured on another GPU or a network that is no rate.
[[nodiscard]] Result<cost::Machine> load_asked_machine(const Arguments& arguments,
                                                       const std::string& config_dir,
                                                       const cost::DeviceSpec& device);

/// --node, --network, --performance, --price, --power, --tokens.
[[nodiscard]] std::vector<OptionSpec> time_options();

/// Reads them. A device that nobody has measured the like of has no machine, which is no error
/// unless a node was asked for.
///
/// Errors:  kInvalidArgument for a number that is none or not positive; those of
///          `load_asked_machine` if --node, --network or --performance is given.
[[nodiscard]] Result<TimeRequest> read_time_options(const Arguments& arguments,
                                                    const cost::DeviceSpec& device);

}  // namespace headroom::cli
