#pragma once

#include "runtimes/interface/runs/measured_runs.h"

namespace headroom::ir::transformers {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

}  // namespace headroom::ir::transformers
