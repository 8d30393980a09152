#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/plan/layer_span.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/pipeline_schedule.h"

/// How torchtitan deals the layers of a model out to the stages of a pipeline. What PyTorch calls a
/// stage is a chunk of a rank of the pipeline here: a rank has one, or several.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/pipeline_parallel.py.
namespace headroom::ir {

/// What one chunk holds. The first has the embedding too, the last the norm and the head.
struct TitanChunk {
  std::int64_t index = 0;  ///< Among all chunks of the model, in its order.
  LayerSpan layers;
  bool first = false;
  bool last = false;
};

/// The pipeline of a plan for a model of `layers`: its micro-batches are parts of
/// `ParallelPlan::micro_batch`.
[[nodiscard]] PipelineShape titan_pipeline(const ParallelPlan& plan, std::int64_t layers);

/// The chunks of a rank of the pipeline, in the order of `PipelineAction::chunk`.
/// Requires that `unsupported_pipeline` has nothing to say.
[[nodiscard]] std::vector<TitanChunk> titan_chunks(const ParallelPlan& plan, std::int64_t layers,
                                                   std::int64_t rank);

/// Why torchtitan would not split a model of `layers` so, or PyTorch not run the schedule; nothing
/// if they do.
/// Source: pipeline_llm, generate_llm_fqn_per_model_part, build_pipeline_schedule;
///         pytorch/pytorch 2.11 torch/distributed/pipelining/schedules.py.
[[nodiscard]] std::optional<Error> unsupported_pipeline(const ParallelPlan& plan,
                                                        std::int64_t layers);

}  // namespace headroom::ir
