#pragma once

#include "runtimes/torchtitan/kept_values.h"
#include "runtimes/torchtitan/model.h"

namespace headroom::ir::torchtitan {

/// TransformerBlock under torch.compile: x [B, S, H] to the same. Forward and backward are one
/// compiled function each; checkpointing is part of them.
///
/// `rotary`: the table of `Model`, as it is passed to the block.
///
/// Model:  the steps are those that Inductor generates for Llama 3 and Qwen3, in its order. Norms,
///         rotations, gates and sums are a kernel each; complex products remain PyTorch's. Sums
///         over rows for the weights of norms have two parts, or run within the kernel of the last
///         norm. Under a budget, steps are fused and ordered as Inductor does
///         (`CompiledGraph::schedule`).
/// Source: pytorch/torchtitan 0.2.2 torchtitan/models/llama3/infra/parallelize.py, apply_compile;
///         pytorch/pytorch 2.11 torch/_functorch/partitioners.py, torch/_inductor/scheduler.py,
///         MixOrderReduction.can_fuse; steps as they were generated on PyTorch 2.11 for widths of
///         1024 and 4096.
[[nodiscard]] torch::Tensor compiled_block(torch::Eager& eager, const Model& model,
                                           const Block& block, const torch::Tensor& x,
                                           const torch::Tensor& rotary, const BlockKeeps& keeps);

}  // namespace headroom::ir::torchtitan
