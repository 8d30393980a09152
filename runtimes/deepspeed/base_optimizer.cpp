#include "runtimes/deepspeed/base_optimizer.h"

#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer_resume.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

bool BaseOptimizer::is_own(const OptimizerPlan& plan, const ZeroPlan& zero) {
  return plan.kind == OptimizerKind::kAdamW && plan.form == OptimizerForm::kFused &&
         !zero.torch_adam && zero.offload_optimizer == OffloadDevice::kNone;
}

/// If the optimizer is DeepSpeedCPUAdam, parameters on the device are stepped by torch.optim.AdamW
/// with its defaults.
/// Source: stage3.py, __init__ (backup_optimizer).
OptimizerPlan BaseOptimizer::inner_plan(const OptimizerPlan& plan, const ZeroPlan& zero) {
  OptimizerPlan inner = plan;
  if (zero.offload_optimizer != OffloadDevice::kNone && zero.offload_ratio < 1) {
    inner.form = OptimizerForm::kForeach;
  }
  return inner;
}

void BaseOptimizer::construct() {
  if (own_) {
    eager_.set_site("fused_adam.overflow", -1);
    overflow_ = eager_.empty({1}, DType::kInt32, TensorRole::kOptimizerState);
  }
}

void BaseOptimizer::load(std::size_t group, std::span<const Tensor> parameters) {
  if (states_.size() <= group) {
    states_.resize(group + 1);
  }
  OptimizerPlan plan = plan_;
  if (own_) {  // FusedAdam counts steps in its groups.
    plan.form = OptimizerForm::kForeach;
  }
  torch::load_states(eager_, plan, parameters, torch::StatesFrom::kHost, states_[group]);
}

void BaseOptimizer::step(std::size_t group, std::span<const Tensor> parameters) {
  if (states_.size() <= group) {
    states_.resize(group + 1);
  }
  torch::OptimizerState& state = states_[group];
  if (!own_) {
    torch::step(eager_, plan_, parameters, state);
    return;
  }
  eager_.set_site("fused_adam", -1);
  state.of_parameter.resize(parameters.size());
  const std::vector<std::size_t> indices = torch::with_gradient(parameters);
  for (const std::size_t index : indices) {
    torch::OptimizerState::Tensors& moments = state.of_parameter[index];
    while (moments.size() < 2) {
      moments.push_back(torch::zeros(eager_, parameters[index].shape(), parameters[index].dtype(),
                                     TensorRole::kOptimizerState));
    }
  }
  // The kernel reads the parameter, the gradient and two moments, and writes all but the gradient.
  torch::launch_list(eager_, parameters, indices, torch::ListKernel::kFourLists, 7,
                     TrafficKind::kFusedStep);
}

void set_gradient(torch::Eager& eager, const Tensor& parameter, const Tensor& gradient) {
  const Tensor before = torch::gradient_of(eager, parameter);  // Freed after the new one exists.
  if (parameter->grad != nullptr) {
    --parameter->grad->uses;
  }
  parameter->grad = gradient.defined() ? gradient.impl() : nullptr;
  if (parameter->grad != nullptr) {
    ++parameter->grad->uses;
  }
}

}  // namespace headroom::ir::deepspeed
