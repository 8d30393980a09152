#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::megatron {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// Range of a parallel degree, and of numbers of layers and ranks.
inline constexpr RunReader::Range kDegreeRange{1, 1 << 16};
/// Range of a dimension or size among Megatron's own arguments.
inline constexpr RunReader::Range kSizeRange{1, std::int64_t{1} << 32};

/// The parallel degrees of a recorded run, and the run.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// A run of Megatron-LM, Megatron-Core, NeMo or Megatron-Bridge that a table describes.
///
/// Model:   layers are those of Transformer Engine, also for runs of 2021 and 2022 with Megatron's
///          own fused kernels. Where a framework's recipe says nothing, Megatron's default is used.
///          Switches that a row quotes in `other` are applied.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

/// A run of Megatron-LM. If the row has its arguments (`other.model_args`), these are read;
/// otherwise it is read as by `read_published_run`.
///
/// Model:   every argument is either supported, known not to affect device memory, or a reason to
///          skip the row: "other.model_args.fp8-format: not modelled". The last rank logs memory.
/// Source:  megatron/training/{arguments,training,global_vars}.py of NVIDIA/Megatron-LM.
void read_megatron_lm_run(RunReader& row, const std::optional<DeviceTraits>& gpu,
                          PublishedRun& run);

}  // namespace headroom::ir::megatron
