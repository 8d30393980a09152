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

/// `--calibrate-from`.
[[nodiscard]] std::vector<OptionSpec> calibration_options();

/// By how much the runs of the file that `--calibrate-from` names are missed, those of `runtime`
/// (`cost::residual_runtime`) alone; none without the option.
///
/// Model:   {"runs": [{"model", "gpu", "plan", "peak_allocated", "peak_reserved",
///          "step_time_ms"}]}: "model" and
///          "gpu" as on the command line, "plan" a plan (configs/schema/plan.schema.json) or the
///          path of a file with one, memory in bytes, at least one figure
///          (configs/schema/runs.schema.json).
/// Errors:  kInvalidInput with file and place for what is not of that form, and for a file without
///          a run of `runtime`; those of reading models, GPUs and plans, and of `cost::estimate`.
[[nodiscard]] Result<cost::Calibration> read_calibration(const Arguments& arguments,
                                                         const std::string& runtime);

/// The errors of measured runs, from `accuracy/residuals.json` of the catalogue's folder; none if
/// there is no such file.
///
/// Errors:  those of `find_config_dir` and `read_residuals`.
[[nodiscard]] Result<std::vector<cost::ResidualSet>> load_residuals(const Arguments& arguments);

/// The same for `accuracy/explanations.json`.
///
/// Errors:  those of `find_config_dir` and `read_explanations`.
[[nodiscard]] Result<std::vector<check::Explanation>> load_explanations(const Arguments& arguments);

}  // namespace headroom::cli
