#pragma once

#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/held_parameters.h"
#include "runtimes/interface/outside_term.h"

/// Memory of a plan of Megatron-Core that needs no replay.
namespace headroom::ir::megatron {

/// The ranks that can have the highest peak.
///
/// Model:   data-parallel ranks hold shares of one size, and the first tensor-parallel rank reads
///          the data for the others. Of pipeline stages with as many layers of the same kinds,
///          later ones have fewer micro-batches in flight: so the first stage (embedding, most in
///          flight), the second (receives), the first between the ends that holds so many layers of
///          each kind, or the last (head and loss) binds. Of a ring of context-parallel ranks the
///          first waits for most, the last keeps most.
/// Source:  NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py;
///          NVIDIA/TransformerEngine attention/dot_product_attention/context_parallel.py.
[[nodiscard]] std::vector<Rank> highest_ranks(const ModelSpec& model, const ParallelPlan& plan);

/// Weights and gradients are cut among tensor-parallel ranks, stages and experts' ranks, the states
/// of the distributed optimizer among all.
[[nodiscard]] HeldParameters parameters_of_rank(const ParallelPlan& plan);

/// Userbuffers under --tp-comm-overlap; the buffers of HybridEP's dispatcher.
[[nodiscard]] std::vector<OutsideTerm> own_buffers(const ModelSpec& model,
                                                   const ParallelPlan& plan);

/// The processes that load data for a rank, with all pages that they share with it at first, as
/// they may copy them in time.
[[nodiscard]] HostTerm loader_term();

/// The least that a rank holds on the host, on average, of an optimizer that works there: fp32
/// parameter, gradient and two moments, before PyTorch's pinned allocator rounds them.
[[nodiscard]] Bytes optimizer_on_host(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::megatron
