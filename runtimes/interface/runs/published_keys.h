#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/runs/run_reader.h"

/// Keys that the readers of published rows share. Each function notes in the reader what it cannot
/// read.
namespace headroom::ir {

/// Micro-batches per step, from `num_microbatches` or from the global batch on `plan.world` ranks.
[[nodiscard]] std::int64_t published_accumulation(RunReader& row, const ParallelPlan& plan);

/// Notes that a plan of several ranks does not say how the model is distributed.
void refuse_several_gpus(RunReader& row, const ParallelPlan& plan);

/// The model that a Hugging Face configuration of a row describes. Errors are noted in the reader.
/// A row that already has an error gets an empty model.
[[nodiscard]] ModelSpec model_of_config(RunReader& row, const JsonValue& config);

/// A row's `model`, if its architecture is a Hugging Face one with Llama's keys.
[[nodiscard]] ModelSpec read_published_model(RunReader& row);

}  // namespace headroom::ir
