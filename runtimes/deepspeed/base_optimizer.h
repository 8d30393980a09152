#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::deepspeed {

/// The optimizer that DeepSpeed wraps. It sees master copies instead of the model's parameters. It
/// is torch's, bitsandbytes', transformers', or DeepSpeed's own FusedAdam, which keeps two moments
/// and allocates no temporaries.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/ops/adam/fused_adam.py.
class BaseOptimizer {
 public:
  BaseOptimizer(torch::Eager& eager, const OptimizerPlan& plan, const ZeroPlan& zero)
      : eager_(eager), plan_(inner_plan(plan, zero)), own_(is_own(plan, zero)) {}

  /// Allocates what the optimizer's constructor needs on the device: FusedAdam needs an overflow
  /// flag.
  void construct();
  /// Runs one step of parameter group `group` on those of `parameters` that have a gradient.
  void step(std::size_t group, std::span<const torch::Tensor> parameters);
  /// Loads the states of a checkpoint, which DeepSpeed reads to the host.
  /// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/stage_1_and_2.py,
  ///         _load_legacy_checkpoint; stage3.py, _rigid_load_state_dict
  ///         (optimizer.load_state_dict).
  void load(std::size_t group, std::span<const torch::Tensor> parameters);

  /// Whether the optimizer is DeepSpeed's FusedAdam, which has a wrapper of its own at stage 0.
  [[nodiscard]] static bool is_own(const OptimizerPlan& plan, const ZeroPlan& zero);

 private:
  [[nodiscard]] static OptimizerPlan inner_plan(const OptimizerPlan& plan, const ZeroPlan& zero);

  torch::Eager& eager_;
  OptimizerPlan plan_;
  bool own_;
  torch::Tensor overflow_;
  std::vector<torch::OptimizerState> states_;  ///< By parameter group.
};

/// Sets `parameter.grad = gradient`; does nothing if `gradient` is undefined.
void set_gradient(torch::Eager& eager, const torch::Tensor& parameter,
                  const torch::Tensor& gradient);

}  // namespace headroom::ir::deepspeed
