#pragma once

#include <optional>

#include "runtimes/interface/runs/measured_runs.h"
#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir::transformers {

/// What published runs of transformers' Trainer say about the training, independent of the
/// framework that distributes it: batch, sequence, types, optimizer, checkpointing, attention and
/// adapters.
void read_published_training(RunReader& row, ParallelPlan& plan);

/// A published run on one GPU.
void read_published_run(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);

}  // namespace headroom::ir::transformers
