#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/confidence.h"
#include "model_ir/base/result.h"

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

}  // namespace headroom::cli
