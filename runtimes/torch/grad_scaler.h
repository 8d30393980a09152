#pragma once

#include <cstdint>
#include <span>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// How a GradScaler learns about overflows in other ranks' shards of the gradients.
enum class FoundReduction : std::uint8_t {
  kNone,      ///< Gradients are not sharded.
  kDTensors,  ///< Each check of DTensors sums its result over the ranks, in a new tensor.
  kInPlace,   ///< ShardedGradScaler: once in unscale_, which fused optimizers do not call.
};

/// `torch.amp.GradScaler("cuda")` with one optimizer and without overflows: every step is taken.
/// Order of calls per optimizer step: scale (once per backward), optionally unscale, step, update.
/// Source: pytorch/pytorch 2.11 torch/amp/grad_scaler.py; torch/distributed/tensor/_dispatch.py,
///         found_inf_reduce_handler; torch/distributed/fsdp/sharded_grad_scaler.py.
class GradScaler {
 public:
  explicit GradScaler(Eager& eager, FoundReduction reduction = FoundReduction::kNone,
                      std::int64_t ranks = 1)
      : eager_(eager), reduction_(reduction), ranks_(ranks) {}

  /// The loss times the scale, which the first call creates.
  [[nodiscard]] Tensor scale(const Tensor& loss);
  /// Divides the gradients of `parameters` by the scale; needed before clipping. Requires a scale.
  void unscale(std::span<const Tensor> parameters);
  /// Unscales unless that has been done, then runs the optimizer. Fused optimizers unscale inside
  /// their kernels.
  void step(const OptimizerPlan& plan, std::span<const Tensor> parameters, OptimizerState& state);
  void update();

 private:
  /// A scalar on the device, made by one kernel.
  [[nodiscard]] Tensor scalar(DType dtype);
  /// Checks the gradients for infinity and multiplies them by `inverse`; the result of the check is
  /// kept in `found_`. Source: GradScaler._unscale_grads_.
  void check(std::span<const Tensor> parameters, Tensor inverse);
  void fused_step(const OptimizerPlan& plan, std::span<const Tensor> parameters,
                  OptimizerState& state);
  void reduce_found();

  Eager& eager_;
  FoundReduction reduction_;
  std::int64_t ranks_;
  Tensor scale_;
  Tensor growth_;
  Tensor found_;  ///< Kept from unscaling to `update`.
  bool unscaled_ = false;
};

}  // namespace headroom::ir::torch
