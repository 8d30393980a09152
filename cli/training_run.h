#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/step_time.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// The options of `plan` about the whole training run: --tokens, --within, --price, --power.
[[nodiscard]] std::vector<OptionSpec> training_run_options();

/// Reads an option whose value is one number for every GPU type, or a number for some of them:
/// "2.5", "a100-80gb=1.8,h100=2.5". The result has an element for each of `devices`.
///
/// Errors:  kInvalidArgument for a number that is not in (0, most], for a name that is not a GPU of
///          `devices`, for a GPU that is named twice, and for a number without a name if there are
///          several devices.
[[nodiscard]] Result<std::vector<std::optional<double>>> read_by_device(
    const Arguments& arguments, const std::string& option, double most,
    std::span<const cost::DeviceSpec> devices);

/// A time with its unit, such as "30d", "12h" or "6w". `example` stands in the message of the
/// error.
///
/// Errors:  kInvalidArgument.
[[nodiscard]] Result<Seconds> parse_duration(const std::string& option, const std::string& text,
                                             const std::string& example = "30d");

/// A training run, and what it costs on each GPU type.
struct TrainingRun {
  std::optional<double> tokens;
  std::optional<Seconds> within;  ///< The time that the run may take.
  std::string within_text;        ///< The same as it was typed.
  /// By GPU type. The power is that of --power, or else the board's own by its datasheet.
  std::vector<cost::RunCosts> costs;
  bool rated_power = true;  ///< Whether the power is the board's by its datasheet.
  bool asked = false;       ///< Whether any of the options was given.

  /// The tokens for which costs are stated: those of the run, or a billion.
  [[nodiscard]] double basis() const;
};

/// Reads these options.
///
/// Errors:  those of `read_by_device` and `parse_duration`; kInvalidArgument for --within without
///          --tokens.
[[nodiscard]] Result<TrainingRun> read_training_run(const Arguments& arguments,
                                                    std::span<const cost::DeviceSpec> devices);

}  // namespace headroom::cli
