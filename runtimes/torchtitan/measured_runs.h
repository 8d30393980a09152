#pragma once

#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::torchtitan {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// The parallel degrees of a recorded run, and the run.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// A published run on several GPUs.
///
/// Model:  the launcher, and with it PYTORCH_ALLOC_CONF, is not stated. Experiments on branches are
///         assumed to use run_train.sh, which sets expandable segments; the others are assumed not
///         to set it.
/// Source: pytorch/torchtitan benchmarks/*.md and docs/performance.md.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::torchtitan
