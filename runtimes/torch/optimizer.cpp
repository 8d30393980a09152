#include "runtimes/torch/optimizer.h"

#include "runtimes/torch/foreach.h"

namespace headroom::ir::torch {

void step(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
          OptimizerState& state) {
  const GradMode no_grad(eager, false);
  state.of_parameter.resize(parameters.size());
  switch (plan.kind) {
    case OptimizerKind::kNone:
      return;
    case OptimizerKind::kAdamW:
      adamw_step(eager, plan.form, parameters, state);
      return;
    case OptimizerKind::kSgd:
      sgd_step(eager, plan, parameters, state);
      return;
    case OptimizerKind::kAdafactor:
      adafactor_step(eager, parameters, state);
      return;
    case OptimizerKind::kAdafactorTorch:
      adafactor_torch_step(eager, parameters, state);
      return;
    case OptimizerKind::kMuon:
      muon_step(eager, parameters, state);
      return;
    case OptimizerKind::kLion:
      lion_step(eager, plan.form, parameters, state);
      return;
  }
}

void zero_grad(Eager& eager, std::span<const Tensor> parameters) {
  eager.set_site("zero_grad", -1);
  for (const Tensor& parameter : parameters) {
    if (parameter->grad == nullptr) {
      continue;
    }
    const Tensor gradient = gradient_of(eager, parameter);  // Freed when this name goes.
    --parameter->grad->uses;
    parameter->grad = nullptr;
  }
}

}  // namespace headroom::ir::torch
