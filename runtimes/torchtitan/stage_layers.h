#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/plan/layer_span.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/pipeline_schedule.h"

/// How torchtitan assigns the layers of a model to the stages of a pipeline. What PyTorch calls a
/// stage is here a chunk of a pipeline rank: a rank has one or several.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/pipeline_parallel.py.
namespace headroom::ir {

/// The contents of one chunk. The first chunk also has the embedding, the last the norm and the
/// head.
struct TitanChunk {
  std::int64_t index = 0;  ///< Index among all chunks of the model, in its order.
  LayerSpan layers;
  bool first = false;
  bool last = false;
};

/// The pipeline of a plan for a model with `layers` layers. Its micro-batches are parts of
/// `Workload::micro_batch`.
[[nodiscard]] PipelineShape titan_pipeline(const ParallelPlan& plan, std::int64_t layers);

/// The chunks of a pipeline rank, in the order of `PipelineAction::chunk`.
/// Requires that `unsupported_pipeline` returns nothing.
[[nodiscard]] std::vector<TitanChunk> titan_chunks(const ParallelPlan& plan, std::int64_t layers,
                                                   std::int64_t rank);

/// Why torchtitan does not split a model with `layers` layers this way, or why PyTorch does not run
/// the schedule. Returns nothing if they do.
/// Source: pipeline_llm, generate_llm_fqn_per_model_part, build_pipeline_schedule; pytorch/pytorch
///         2.11 torch/distributed/pipelining/schedules.py.
[[nodiscard]] std::optional<Error> unsupported_pipeline(const ParallelPlan& plan,
                                                        std::int64_t layers);

}  // namespace headroom::ir
