#pragma once

#include <optional>
#include <string>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::fsdp {

/// The recorded and the published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// Describes how a recorded run was parallelised.
[[nodiscard]] std::string recorded_parallel(const JsonValue& setting);
void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run);

/// Reads a run of llm-foundry's throughput tables: MPT under Composer and FSDP1.
///
/// Model:   MPT's blocks have LayerNorms, GELU and learned positions. Linear layers have no bias,
///          and embedding and head are tied. This is OPT without biases, except that OPT computes
///          queries, keys and values in three products and MPT in one. FSDP1 wraps every block;
///          shards, gradients and states are fp32.
/// Source:  mosaicml/llm-foundry, scripts/train/benchmarking (README.md, sweep.py) and
///          llmfoundry/models/mpt; mosaicml/composer, composer/distributed/mosaic_fsdp.py (DEFAULT:
///          gradients reduced in fp32, PURE: in bf16).
void read_foundry_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::fsdp
