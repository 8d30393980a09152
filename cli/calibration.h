#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/confidence.h"
#include "costmodel/residuals.h"
#include "model_ir/base/result.h"
#include "validators/measured/explanations.h"

namespace headroom::cli {

/// The option `--calibrate-from`.
[[nodiscard]] std::vector<OptionSpec> calibration_options();
/// The option --routing-imbalance.
[[nodiscard]] OptionSpec routing_option();

/// The errors of the predictions for the runs in the file that `--calibrate-from` names, only for
/// runs of `runtime` (`cost::residual_runtime`). There are none without the option.
///
/// Model:   {"runs": [{"model", "gpu", "plan", "peak_allocated", "peak_reserved",
///          "step_time_ms"}]}. "model" and "gpu" are as on the command line. "plan" is a plan
///          (configs/schema/plan.schema.json) or the path of a file with one. Memory is in bytes. A
///          run has at least one figure (configs/schema/runs.schema.json).
/// Errors:  kInvalidInput with file and place for a file of another form, and for a file without a
///          run of `runtime`; those of reading models, GPUs and plans, and of `cost::estimate`.
[[nodiscard]] Result<cost::Calibration> read_calibration(const Arguments& arguments,
                                                         const std::string& runtime);

/// Reads the errors of measured runs from `accuracy/residuals.json` in the catalogue's folder.
/// There are none if the file does not exist.
///
/// Errors:  those of `find_config_dir` and `read_residuals`.
[[nodiscard]] Result<std::vector<cost::ResidualSet>> load_residuals(const Arguments& arguments);

/// The same for `accuracy/explanations.json`.
///
/// Errors:  those of `find_config_dir` and `read_explanations`.
[[nodiscard]] Result<std::vector<check::Explanation>> load_explanations(const Arguments& arguments);

}  // namespace headroom::cli
