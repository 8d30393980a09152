#pragma once

#include "costmodel/time/machine.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/megatron/search/block_times.h"

namespace headroom::plan {

/// What no piece of `plan` falls below, without a program: bounds for plans whose `block_times`
/// nobody has asked for yet.
///
/// Model:   the matrix products, the attention kernels and the exchange of tokens among experts and
///          of activations among tensor-parallel ranks (forward: backward's may run beside
///          products) that the runtime runs for one layer, each priced by `cost::work_time`, one
///          behind the other. No kernels bound by memory, nothing of the host, no recomputation.
/// Shapes:  T = B S / c tokens of a rank.
[[nodiscard]] BlockTimes block_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                     const cost::Machine& machine);

}  // namespace headroom::plan
