#pragma once

#include <vector>

#include "runtimes/deepspeed/base_optimizer.h"
#include "runtimes/deepspeed/parameter_groups.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

/// BF16_Optimizer, which stage 1 takes for bf16 parameters with gradients accumulated in fp32:
/// masters and states partitioned, fp32 gradients of all parameters on every rank.
///
/// The bf16 gradients are added to the fp32 ones after each backward and stay, set to zero, until
/// the step. The engine reduces the fp32 gradients in bf16.
///
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/bf16_optimizer.py.
class Bf16Optimizer final : public OptimizerWrapper {
 public:
  Bf16Optimizer(EngineState state, BaseOptimizer& optimizer)
      : state_(state), optimizer_(optimizer), groups_(parameter_groups(state.model, state.zero)) {}

  void initialize() override;
  void after_backward(bool boundary) override;
  void step() override;

  /// Whether the engine chooses it. Source: runtime/engine.py, _do_optimizer_sanity_check.
  [[nodiscard]] static bool is_chosen(const ParallelPlan& plan, const ZeroPlan& zero);

 private:
  void weigh();
  void make_clip_coefficient();

  EngineState state_;
  BaseOptimizer& optimizer_;
  ParameterGroups groups_;
  std::vector<torch::Tensor> flat_;       ///< Parameters of each group.
  std::vector<torch::Tensor> masters_;    ///< Of the own partition of each group.
  std::vector<torch::Tensor> gradients_;  ///< fp32, of each group.
  torch::Tensor norm_;                    ///< `_global_grad_norm`, kept for whoever asks.
};

}  // namespace headroom::ir::deepspeed
