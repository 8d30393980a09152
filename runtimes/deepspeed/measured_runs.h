#pragma once

#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::deepspeed {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// How a recorded run was spread, and the run.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// A published run whose ZeRO stage is stated.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

/// A run of Qwen's finetune.py: Trainer, with PEFT, on one GPU or under one of its DeepSpeed
/// configurations.
///
/// Model:  the model's own code of 2023 is close to Qwen2's: queries, keys and values come from one
///         product there, and rotation and norms have kernels of their own.
/// Source: QwenLM/Qwen finetune.py and finetune/*.sh.
void read_qwen_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::deepspeed
