#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torchtitan/memory_budget.h"
#include "runtimes/torchtitan/tensor_mesh.h"

namespace headroom::ir::torchtitan {

/// cross_entropy_loss: casts the logits [B, S, V] to fp32 and sums the cross entropy.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/components/loss.py.
[[nodiscard]] torch::Tensor cross_entropy(torch::Eager& eager, const torch::Tensor& logits,
                                          const torch::Tensor& labels);

/// The same under torch.compile. It reads the logits in their own type, and saves two numbers per
/// row besides them, or those of the two that `keeps` names. Its gradient has the logits' type.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/components/loss.py, build_cross_entropy_loss.
[[nodiscard]] torch::Tensor compiled_cross_entropy(torch::Eager& eager, const torch::Tensor& logits,
                                                   const torch::Tensor& labels,
                                                   const LossKeeps& keeps);

/// The same under loss_parallel. The logits [B, S, V/T] stay sharded by vocabulary. Maxima, sums
/// and the chosen log-probabilities are reduced over the ranks. One node stands for both operators.
/// Source: pytorch/pytorch 2.11 torch/distributed/tensor/parallel/loss.py.
[[nodiscard]] torch::Tensor sharded_cross_entropy(torch::Eager& eager, const torch::Tensor& logits,
                                                  const torch::Tensor& labels);

/// The loss that the plan's Trainer builds.
[[nodiscard]] torch::Tensor loss_of(torch::Eager& eager, const ParallelPlan& plan,
                                    const torch::Tensor& logits, const torch::Tensor& labels);

}  // namespace headroom::ir::torchtitan
