#pragma once

#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// The ranks among which the one with the highest peak is; the one that the plan asks for, if any.
///
/// Model:   data-parallel ranks hold shares of one size, and the first tensor-parallel rank reads
///          the data for the others. Of pipeline stages with as many layers of the same kinds,
///          later ones have fewer micro-batches in flight: so the first stage (embedding, most in
///          flight), the second (receives), the first between the ends that holds so many layers of
///          each kind, or the last (head and loss) binds. Of a ring of context-parallel ranks the
///          first waits for most, the last keeps most. Of torchtitan's pipelines the first two and
///          the last two ranks, and the first and the last of those that hold as many layers.
/// Source:  NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py;
///          NVIDIA/TransformerEngine attention/dot_product_attention/context_parallel.py.
[[nodiscard]] std::vector<ir::Rank> binding_ranks(const ir::ModelSpec& model,
                                                  const ir::ParallelPlan& plan);

}  // namespace headroom::cost
