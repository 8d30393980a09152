#pragma once

#include "costmodel/time/machine.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/megatron/search/block_times.h"

namespace headroom::plan {

/// Lower bounds on the block times of `plan`, computed without a program. They serve plans whose
/// `block_times` have not been computed yet.
///
/// Model:   the operators that the runtime runs for one layer, each priced by `cost::work_time`,
///          one after the other: matrix products, attention kernels, exchanges of tokens among
///          experts, and in forward those of activations among tensor-parallel ranks (in backward
///          they may overlap products). Under --tp-comm-overlap, products run in the runtime's
///          bands beside the exchange, in forward and in the input gradient of row-parallel layers.
///          Of an overlapped shared expert and the exchange of tokens, the longer counts.
///          Memory-bound kernels, host time and recomputation are not counted.
/// Shapes:  T = B S / c tokens of a rank.
[[nodiscard]] BlockTimes block_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                     const cost::Machine& machine);

}  // namespace headroom::plan
