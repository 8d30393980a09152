#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "costmodel/time/step_time.h"

namespace headroom::cli {

/// The options about time.
struct TimeRequest {
  std::optional<cost::Machine> machine;
  std::string missing;  ///< Why there is no machine; empty if there is one.
  cost::RunCosts costs;
};

/// The options --node, --network, --performance.
[[nodiscard]] std::vector<OptionSpec> machine_options();
/// Those that belong to a GPU, and mean nothing of another one: --node, --performance.
[[nodiscard]] std::span<const std::string_view> options_of_device();
/// Loads the machine that these options describe: `cost::load_machine`, with the figures of the
/// user's own file instead of the catalogue's, and with another network.
///
/// Errors:  those of `cost::load_machine` and `cost::read_performance`; kInvalidArgument for a file
///          that was measured on another GPU, or for a network that is not a rate.
[[nodiscard]] Result<cost::Machine> load_asked_machine(const Arguments& arguments,
                                                       const std::string& config_dir,
                                                       const cost::DeviceSpec& device);

/// The options --node, --network, --performance, --price, --power, --tokens.
[[nodiscard]] std::vector<OptionSpec> time_options();

/// Reads these options. A device without performance data, its own or of a similar one, has no
/// machine. That is an error only if the user named a node.
///
/// Errors:  kInvalidArgument for a value that is no number or not positive; those of
///          `load_asked_machine` if --node, --network or --performance is given.
[[nodiscard]] Result<TimeRequest> read_time_options(const Arguments& arguments,
                                                    const cost::DeviceSpec& device);

}  // namespace headroom::cli
