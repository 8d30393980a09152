#pragma once

#include <vector>

#include "runtimes/deepspeed/base_optimizer.h"
#include "runtimes/deepspeed/parameter_groups.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

/// BF16_Optimizer, which stage 1 uses if parameters are bf16 and gradients are accumulated in fp32.
/// Master parameters and optimizer states are partitioned; every rank has the fp32 gradients of all
/// parameters.
///
/// After each backward the bf16 gradients are added to the fp32 ones. They are set to zero, not
/// freed, until the step. The engine reduces the fp32 gradients in bf16.
///
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/bf16_optimizer.py.
class Bf16Optimizer final : public OptimizerWrapper {
 public:
  Bf16Optimizer(EngineState state, BaseOptimizer& optimizer)
      : state_(state), optimizer_(optimizer), groups_(parameter_groups(state.model, state.zero)) {}

  void initialize() override;
  void after_backward(bool boundary) override;
  void step() override;
  [[nodiscard]] std::vector<std::vector<torch::Tensor>> stepped() const override;

  /// Whether the engine chooses this wrapper. Source: runtime/engine.py,
  /// _do_optimizer_sanity_check.
  [[nodiscard]] static bool is_chosen(const ParallelPlan& plan, const ZeroPlan& zero);

 private:
  void weigh();
  void make_clip_coefficient();

  EngineState state_;
  BaseOptimizer& optimizer_;
  ParameterGroups groups_;
  std::vector<torch::Tensor> flat_;       ///< Parameters of each group.
  std::vector<torch::Tensor> masters_;    ///< Masters of this rank's partition of each group.
  std::vector<torch::Tensor> gradients_;  ///< fp32 gradients of each group.
  torch::Tensor norm_;                    ///< `_global_grad_norm`, which the engine keeps.
};

}  // namespace headroom::ir::deepspeed
