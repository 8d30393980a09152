#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/functions.h"

namespace headroom::ir::torchtitan {

/// The context-parallel group of a rank: rank 0 of `ranks`, each `stride` apart.
struct ContextGroup {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;
};

/// Causal attention of a part of the sequence over all of it: q [B, A, S/C, D], k and v
/// [B, K, S/C, D], as rank 0 of the group runs it.
///
/// Model:   keys and values of all ranks are gathered at once. The sequence is dealt out as a head
///          and a tail: after its own part, this rank's second half attends to every other rank's
///          keys. Results are merged in fp32. With `outputs` defined nothing runs.
/// Source:  pytorch/pytorch 2.11 torch/distributed/tensor/experimental/_context_parallel/
///          _attention.py, _templated_ring_attention and its backward; rotate method allgather.
[[nodiscard]] torch::Tensor ring_attention(torch::Eager& eager, const ContextGroup& group,
                                           const torch::Tensor& q, const torch::Tensor& k,
                                           const torch::Tensor& v, torch::FlashOutputs& outputs);

}  // namespace headroom::ir::torchtitan
