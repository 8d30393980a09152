#pragma once

#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::torchtitan {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// How a recorded run was spread, and the run.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// A published run on several GPUs.
///
/// Model:  the launcher, and with it PYTORCH_ALLOC_CONF, is not stated: run_train.sh, which sets
///         expandable segments, for experiments on branches, and none for the rest.
/// Source: pytorch/torchtitan benchmarks/*.md and docs/performance.md.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::torchtitan
