#pragma once

#include <vector>

#include "runtimes/deepspeed/partitioned_parameters.h"
#include "runtimes/deepspeed/plan.h"

namespace headroom::ir::deepspeed {

/// zero.Init: what happens to parameters when a model is built under it.
///
/// Model:  each parameter is broadcast to all ranks and partitioned as soon as it exists.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/partition_parameters.py, Init.
class ZeroInit {
 public:
  ZeroInit(torch::Eager& eager, const ParallelPlan& plan, const ZeroPlan& zero)
      : eager_(eager), plan_(plan), zero_(zero) {}

  void partition(const torch::Tensor& parameter);
  /// Frees parameters that no module refers to any more (the head of a model with tied embeddings).
  /// Each parameter refers to itself through its methods, so only Python's garbage collector frees
  /// it. In recorded rows it runs at the end of the phase in which the model is made.
  void collect_garbage(const transformers::Model& model);
  [[nodiscard]] std::vector<PartitionedParameter> take() { return std::move(parameters_); }

 private:
  torch::Eager& eager_;
  const ParallelPlan& plan_;
  const ZeroPlan& zero_;
  std::vector<PartitionedParameter> parameters_;
};

/// Partitions `parameter`: its memory is freed, and this rank's part remains.
[[nodiscard]] PartitionedParameter partitioned(torch::Eager& eager, const ParallelPlan& plan,
                                               const ZeroPlan& zero,
                                               const torch::Tensor& parameter);

/// Whether a module of `model` has `parameter`.
[[nodiscard]] bool refers_to(const transformers::Model& model, const torch::Tensor& parameter);

}  // namespace headroom::ir::deepspeed
