#pragma once

#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::fsdp {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// How a recorded run was spread, and the run.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// A run of llm-foundry's throughput tables: MPT under Composer and FSDP1.
///
/// Model:   MPT's blocks have LayerNorms, GELU and learned positions, no bias in a linear layer,
///          embedding and head tied: OPT's without biases, where queries, keys and values are three
///          products and not one. FSDP1 with every block wrapped; shards, gradients and states in
///          fp32.
/// Source:  mosaicml/llm-foundry, scripts/train/benchmarking (README.md, sweep.py) and
///          llmfoundry/models/mpt; mosaicml/composer, composer/distributed/mosaic_fsdp.py (DEFAULT:
///          gradients reduced in fp32, PURE: in bf16).
void read_foundry_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::fsdp
