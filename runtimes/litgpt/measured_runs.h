#pragma once

#include <optional>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::litgpt {

/// The recorded and the published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// Reads a published run of `finetune` on one GPU.
///
/// Model:  on one GPU the recipe checkpoints no activations. Adapters have a dropout. Embedding and
///         head are not tied.
/// Source: Lightning-AI/litgpt, config_hub/finetune and tutorials/resource-tables.md.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::litgpt
