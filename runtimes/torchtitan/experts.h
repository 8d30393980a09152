#pragma once

#include "runtimes/torchtitan/layer_run.h"

namespace headroom::ir::torchtitan {

/// MoE.forward: x [B, S, H] to the same.
///
/// Model:  router (fp32 scores; experts are chosen with a bias that has no gradient), reorderer
///         (stable sort of the choices), experts (rows padded to groups of eight, grouped
///         products), and the rows restored to the order of the tokens and summed with their
///         scores. No size depends on how many tokens each expert receives: padding takes eight
///         rows for each expert of this rank.
/// Ignores: uneven routing. Under expert parallelism every rank is assumed to receive as many rows
///          as it sends.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/models/moe/moe.py, utils.py, kernels.py;
///         torchtitan/distributed/expert_parallel.py.
[[nodiscard]] torch::Tensor run_mixture(const LayerRun& run, const torch::Tensor& x);

}  // namespace headroom::ir::torchtitan
