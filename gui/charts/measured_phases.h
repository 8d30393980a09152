#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/phase_name.h"

namespace headroom::gui {

/// The measurements of a phase in a report.
struct MeasuredPeak {
  ir::PhaseName phase;
  Bytes allocated;
  std::optional<Bytes> reserved;
};

/// Reads the measured peaks of each phase from the JSON document of `headroom validate` or
/// `headroom dryrun` (its first process).
///
/// Errors:  those of `read_file` and `parse_json`; kInvalidInput for a document without such
/// phases.
[[nodiscard]] Result<std::vector<MeasuredPeak>> read_measured_peaks(const std::string& path);

}  // namespace headroom::gui
