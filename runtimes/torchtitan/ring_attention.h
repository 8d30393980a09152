#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/functions.h"

namespace headroom::ir::torchtitan {

/// The context-parallel group of a rank, which is rank 0 of `ranks` ranks that are `stride` apart.
struct ContextGroup {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;
};

/// Causal attention of a part of the sequence over the whole sequence: q [B, A, S/C, D], k and v
/// [B, K, S/C, D], as rank 0 of the group runs it.
///
/// Model:   keys and values of all ranks are gathered at once. Each rank has a part of the
///          sequence's head and one of its tail. After its own part, the second half of this rank's
///          queries attends to every other rank's keys. Results are merged in fp32. If `outputs` is
///          defined, nothing runs.
/// Source:  pytorch/pytorch 2.11
///          torch/distributed/tensor/experimental/_context_parallel/_attention.py,
///          _templated_ring_attention and its backward; rotate method allgather.
[[nodiscard]] torch::Tensor ring_attention(torch::Eager& eager, const ContextGroup& group,
                                           const torch::Tensor& q, const torch::Tensor& k,
                                           const torch::Tensor& v, torch::FlashOutputs& outputs);

}  // namespace headroom::ir::torchtitan
