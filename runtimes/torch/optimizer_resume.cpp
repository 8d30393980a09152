#include "runtimes/torch/optimizer_resume.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "runtimes/torch/foreach.h"

namespace headroom::ir::torch {
namespace {

/// The states of one parameter in a checkpoint.
struct SavedStates {
  bool counts_steps = false;  ///< Whether there is a tensor that counts steps.
  std::vector<Shape> shapes;  ///< Of the other states, which have the parameter's type.
};

SavedStates adamw_states(const Tensor& parameter) {
  return {.counts_steps = true, .shapes = {parameter.shape(), parameter.shape()}};
}

SavedStates states_of(const OptimizerPlan& plan, const Tensor& parameter, bool layer_matrix) {
  const Shape& shape = parameter.shape();
  switch (plan.kind) {
    case OptimizerKind::kAdamW:
      return adamw_states(parameter);
    case OptimizerKind::kSgd:
      return plan.momentum != 0 ? SavedStates{.counts_steps = false, .shapes = {shape}}
                                : SavedStates{};
    case OptimizerKind::kLion:
      return {.counts_steps = false, .shapes = {shape}};
    case OptimizerKind::kMuon:
      return layer_matrix ? SavedStates{.counts_steps = false, .shapes = {shape}}
                          : adamw_states(parameter);
    case OptimizerKind::kAdafactorTorch:
      return {.counts_steps = true,
              .shapes = shape.rank() > 1 ? std::vector<Shape>{shape.with(-1, 1), shape.with(-2, 1)}
                                         : std::vector<Shape>{shape}};
    case OptimizerKind::kNone:
    case OptimizerKind::kAdafactor:
      break;
  }
  return {};
}

Tensor copied_state(Eager& eager, const Shape& shape, DType dtype) {
  Tensor copy = eager.empty(shape, dtype, TensorRole::kOptimizerState);
  eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = bytes_of(copy)});
  return copy;
}

}  // namespace

bool loads_states(const OptimizerPlan& plan) {
  const bool own_form = plan.form == OptimizerForm::kEightBit ||
                        plan.form == OptimizerForm::kPagedEightBit ||
                        plan.form == OptimizerForm::kPaged;
  const bool of_bitsandbytes =
      own_form || (plan.kind == OptimizerKind::kLion && plan.form == OptimizerForm::kFused);
  return plan.kind != OptimizerKind::kNone && plan.kind != OptimizerKind::kAdafactor &&
         !of_bitsandbytes;
}

void load_states(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
                 StatesFrom from, OptimizerState& state) {
  if (!loads_states(plan)) {
    return;
  }
  eager.set_site("load_state_dict", -1);
  const bool counts_on_device = from == StatesFrom::kDevice || plan.form == OptimizerForm::kFused;
  std::vector<OptimizerState::Tensors> loaded(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i];
    if (!parameter.defined()) {
      continue;
    }
    const bool matrix = i < state.layer_matrices.size() && state.layer_matrices[i];
    const SavedStates saved = states_of(plan, parameter, matrix);
    if (saved.counts_steps && counts_on_device) {
      loaded[i].push_back(copied_state(eager, Shape{}, DType::kFp32));
    }
    for (const Shape& shape : saved.shapes) {
      loaded[i].push_back(copied_state(eager, shape, parameter.dtype()));
    }
  }
  state.of_parameter = std::move(loaded);
}

void initialise_states(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
                       OptimizerState& state) {
  eager.set_site("init_optim_state", -1);
  for (const Tensor& parameter : parameters) {
    if (parameter.requires_grad() && parameter->grad == nullptr) {
      const Tensor gradient =
          zeros(eager, parameter.shape(), parameter.dtype(), TensorRole::kGradient);
      parameter->grad = gradient.impl();
      ++parameter->grad->uses;
    }
  }
  step(eager, plan, parameters, state);
  zero_grad(eager, parameters);
}

}  // namespace headroom::ir::torch
