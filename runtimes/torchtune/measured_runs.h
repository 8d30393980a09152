#pragma once

#include <optional>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::torchtune {

/// The recorded and the published runs of this framework.
[[nodiscard]] const MeasuredRuns& measured_runs();

/// Reads a published run of a recipe on one GPU or on FSDP2.
///
/// Model:  attention is not stated; flash kernels are assumed, with or without a block mask.
/// Source: pytorch/torchtune recipes/{full,lora}_finetune_{single_device,distributed}.py and
///         recipes/configs at 30b8519 and 1814feb.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::torchtune
