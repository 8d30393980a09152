#pragma once

#include "model_ir/graph/graph.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::transformers {

/// A plain training loop: load; for each step, forward and backward of the micro-batches, the
/// optimizer's step and zero_grad; at the end, if requested, one evaluation.
void train(torch::Eager& eager, const ModelSpec& spec, const ParallelPlan& plan,
           const Graph& graph);

}  // namespace headroom::ir::transformers
