#pragma once

#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::deepspeed {

/// The recorded and the published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// Describes how a recorded run was parallelised.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// Reads a published run that states its ZeRO stage.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

/// Reads a run of Qwen's finetune.py, which uses Trainer, with PEFT, on one GPU or with one of its
/// DeepSpeed configurations.
///
/// Model:  the model code of 2023 is close to Qwen2's. It computes queries, keys and values in one
///         product, and has its own kernels for rotation and norms.
/// Source: QwenLM/Qwen finetune.py and finetune/*.sh.
void read_qwen_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::deepspeed
