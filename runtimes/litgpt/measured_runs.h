#pragma once

#include <optional>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::litgpt {

/// The recorded and published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// A published run of `finetune` on one GPU.
///
/// Model:  the recipe checkpoints no activations on one GPU; adapters have a dropout. Embedding and
///         head are apart.
/// Source: Lightning-AI/litgpt, config_hub/finetune and tutorials/resource-tables.md.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::litgpt
