#pragma once

#include <vector>

#include "runtimes/deepspeed/partitioned_parameters.h"
#include "runtimes/deepspeed/plan.h"

namespace headroom::ir::deepspeed {

/// zero.Init: what happens to parameters while a model is built under it.
///
/// Model:  each parameter is sent to all ranks and partitioned as soon as it has been made.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/partition_parameters.py, Init.
class ZeroInit {
 public:
  ZeroInit(torch::Eager& eager, const ParallelPlan& plan, const ZeroPlan& zero)
      : eager_(eager), plan_(plan), zero_(zero) {}

  void partition(const torch::Tensor& parameter);
  /// Lets go of what no module refers to any more (the head of a model with tied embeddings): each
  /// parameter refers to itself through its methods, so only Python's collector frees it.
  void collect_garbage(const transformers::Model& model);
  [[nodiscard]] std::vector<PartitionedParameter> take() { return std::move(parameters_); }

 private:
  torch::Eager& eager_;
  const ParallelPlan& plan_;
  const ZeroPlan& zero_;
  std::vector<PartitionedParameter> parameters_;
};

/// What is left of `parameter`, whose memory goes: this rank's part.
[[nodiscard]] PartitionedParameter partitioned(torch::Eager& eager, const ParallelPlan& plan,
                                               const ZeroPlan& zero,
                                               const torch::Tensor& parameter);

/// Whether a module of `model` has `parameter`.
[[nodiscard]] bool refers_to(const transformers::Model& model, const torch::Tensor& parameter);

}  // namespace headroom::ir::deepspeed
