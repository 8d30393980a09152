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
/// Model:   data-parallel ranks hold shards of equal size, and the first tensor-parallel rank reads
///          the data for the others. Among pipeline stages with equally many layers of the same
///          kinds, later ones have fewer micro-batches in flight. So one of these binds: the first
///          stage (embedding, most in flight), the second (receives activations), the first of the
///          middle stages with each combination of layer counts, or the last (head and loss). In a
///          ring of context-parallel ranks, the first waits for most, and the last keeps most.
/// Source:  NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py;
///          NVIDIA/TransformerEngine attention/dot_product_attention/context_parallel.py.
[[nodiscard]] std::vector<Rank> highest_ranks(const ModelSpec& model, const ParallelPlan& plan);

/// Weights and gradients are sharded over tensor-parallel ranks, pipeline stages and
/// expert-parallel ranks. The distributed optimizer shards its states over all ranks.
[[nodiscard]] HeldParameters parameters_of_rank(const ParallelPlan& plan);

/// Userbuffers with --tp-comm-overlap, and the buffers of HybridEP's dispatcher.
[[nodiscard]] std::vector<OutsideTerm> own_buffers(const ModelSpec& model,
                                                   const ParallelPlan& plan);

/// The processes that load data for a rank, with all pages that they share with it at first, as
/// they may copy them in time.
[[nodiscard]] HostTerm loader_term();

/// The least that a rank holds on the host, on average, of an optimizer that works there: fp32
/// parameter, gradient and two moments, before PyTorch's pinned allocator rounds them.
[[nodiscard]] Bytes optimizer_on_host(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::megatron
