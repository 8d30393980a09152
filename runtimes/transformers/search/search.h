#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// How transformers' Trainer is searched: attention, losses, micro-batches, recomputation of all
/// layers; several GPUs with DistributedDataParallel.
[[nodiscard]] const FrameworkSearch& transformers_search();

/// The rows of frameworks that train transformers' models, which follow their own: attention, loss,
/// micro-batch, recomputation.
///
/// Model:   only if it is asked for: what needs a package (flash-attn, Liger), a loss that the
///          training loop has to call, and what is no better than PyTorch's own choice.
[[nodiscard]] std::vector<SearchAxis> transformers_axes();

/// `plan` with Liger's kernels, which `transformers_axes` has only if they are asked for.
[[nodiscard]] std::vector<OfferedChange> offered_liger(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
