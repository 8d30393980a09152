#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::megatron {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// A parallel degree, and what counts layers and ranks beside one.
inline constexpr RunReader::Range kDegreeRange{1, 1 << 16};
/// A dimension or size among Megatron's own arguments.
inline constexpr RunReader::Range kSizeRange{1, std::int64_t{1} << 32};

/// How a recorded run was spread, and the run.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// A run of Megatron-LM, Megatron-Core, NeMo or Megatron-Bridge that a table describes.
///
/// Model:   layers are those of Transformer Engine, also for runs of 2021 and 2022 on Megatron's
///          own fused kernels; what a framework's recipe leaves unsaid is Megatron's default.
///          Switches that a row quotes in `other` count.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

/// A run of Megatron-LM: by its arguments where the row has them (`other.model_args`), else as
/// `read_published_run`.
///
/// Model:   every argument is understood, known to move no bytes of a device, or a reason to skip
///          the row: "other.model_args.fp8-format: not modelled". The last rank logs memory.
/// Source:  megatron/training/{arguments,training,global_vars}.py of NVIDIA/Megatron-LM.
void read_megatron_lm_run(RunReader& row, const std::optional<DeviceTraits>& gpu,
                          PublishedRun& run);

}  // namespace headroom::ir::megatron
