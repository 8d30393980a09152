#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/runtime/megatron/gradient_sync.h"
#include "model_ir/runtime/megatron/stage.h"

namespace headroom::ir::megatron {

/// Which chunk of a stage runs in the order of an interleaved schedule, micro-batches in groups of
/// as many as there are stages. Source: megatron/core/pipeline_parallel/schedules.py,
/// get_schedule_table.
[[nodiscard]] std::vector<std::int64_t> chunk_order(std::int64_t micro_batches, std::int64_t chunks,
                                                    std::int64_t group);

/// Micro-batches (of any chunk) that a stage runs forward before its first backward.
/// Source: schedules.py, get_pp_rank_microbatches.
[[nodiscard]] std::int64_t warmup_micro_batches(const Axis& pipeline, std::int64_t micro_batches,
                                                std::int64_t chunks);

/// All micro-batches of one step, forward and backward: without a pipeline, 1F1B, or interleaved.
/// Source: schedules.py, forward_backward_no_pipelining, _pipelining_without_interleaving and
/// _pipelining_with_interleaving (overlap_p2p_comm, as the training script sets it).
/// Gradients are reduced last, while the schedule's local names still hold what they held.
void run_step(const Runner& run, Stage& stage, GradientSync& sync);

}  // namespace headroom::ir::megatron
