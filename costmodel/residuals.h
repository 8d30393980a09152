#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cost {

/// What an interval is about.
enum class Measurand : std::uint8_t { kPeakAllocated, kPeakReserved, kStepTime };
/// "peak_allocated", "peak_reserved", "step_time".
[[nodiscard]] std::string_view name_of(Measurand measurand);

/// The errors of the predictions for one source of measured runs: e = (measured - predicted) /
/// predicted, one per run.
struct ResidualSet {
  std::string source;   ///< The name of the file of rows.
  std::string runtime;  ///< `residual_runtime` of the rows.
  Measurand measurand = Measurand::kPeakAllocated;
  bool on_gpu = false;         ///< Measured on a GPU; otherwise on an accounting device.
  std::vector<double> errors;  ///< Sorted, at least one.
  friend bool operator==(const ResidualSet&, const ResidualSet&) = default;
};

/// The name under which runs of `plan` are compared with measured runs: the runtime's, or that of
/// the modelling code that replaces it.
[[nodiscard]] std::string residual_runtime(const ir::ParallelPlan& plan);

/// The document of `configs/accuracy/residuals.json` (`configs/schema/residuals.schema.json`);
/// errors are rounded to 1e-6.
[[nodiscard]] ir::JsonValue residuals_to_json(std::span<const ResidualSet> sets);

/// Reads what `residuals_to_json` makes.
///
/// Errors:  those of `read_file`; kInvalidInput for anything that is not of that form.
[[nodiscard]] Result<std::vector<ResidualSet>> read_residuals(const std::string& path);

}  // namespace headroom::cost
