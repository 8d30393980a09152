#pragma once

#include "runtimes/megatron/gradient_sync.h"
#include "runtimes/megatron/stage.h"

namespace headroom::ir::megatron {

/// Runs all micro-batches of one step, forward and backward: without a pipeline, with 1F1B, or
/// interleaved. Gradients are reduced last, while the schedule's local names still hold their
/// tensors.
/// Source: schedules.py, forward_backward_no_pipelining, _pipelining_without_interleaving and
///         _pipelining_with_interleaving (overlap_p2p_comm, as the training script sets it).
void run_step(const Runner& run, Stage& stage, GradientSync& sync);

}  // namespace headroom::ir::megatron
