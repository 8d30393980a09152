#pragma once

#include <vector>

#include "runtimes/deepspeed/base_optimizer.h"
#include "runtimes/deepspeed/parameter_groups.h"
#include "runtimes/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

/// ZeRO stage 0: the engine all-reduces gradients itself. It flattens them into buckets of its own
/// size.
class StageZero : public OptimizerWrapper {
 public:
  StageZero(EngineState state, BaseOptimizer& optimizer)
      : state_(state), optimizer_(optimizer), groups_(parameter_groups(state.model, state.zero)) {}
  void after_backward(bool boundary) override;

 protected:
  /// Checks one gradient after the other for infinities. Source: runtime/utils.py, CheckOverflow.
  void check_overflow();
  void drop_gradients(const std::vector<torch::Tensor>& parameters);

  EngineState state_;
  BaseOptimizer& optimizer_;
  ParameterGroups groups_;
};

/// FP16_UnfusedOptimizer, which keeps an fp32 master of every parameter.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/fp16/unfused_optimizer.py.
class UnfusedMasters final : public StageZero {
 public:
  using StageZero::StageZero;
  void initialize() override;
  void step() override;
  [[nodiscard]] ParameterGroups stepped() const override { return masters_; }

 private:
  void weigh(const std::vector<torch::Tensor>& parameters);
  ParameterGroups masters_;
};

/// FP16_Optimizer, for DeepSpeed's FusedAdam. Parameters and masters are flattened group by group.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/fp16/fused_optimizer.py.
class FusedMasters final : public StageZero {
 public:
  using StageZero::StageZero;
  void initialize() override;
  void step() override;
  [[nodiscard]] std::vector<std::vector<torch::Tensor>> stepped() const override;

 private:
  std::vector<torch::Tensor> flat_;
  std::vector<torch::Tensor> masters_;
};

/// Training in fp32: the optimizer is not wrapped, and the engine clips the gradients.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/engine.py, clip_fp32_gradients.
class PlainOptimizer final : public StageZero {
 public:
  using StageZero::StageZero;
  void initialize() override {}
  void step() override;
  [[nodiscard]] ParameterGroups stepped() const override { return groups_; }

 private:
  void clip();
};

}  // namespace headroom::ir::deepspeed
