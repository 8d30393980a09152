// torch.optim.SGD without weight decay.

#include <vector>

#include "model_ir/base/check.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/optimizer.h"

namespace headroom::ir::torch {
namespace {

/// The first momentum is a copy of the gradient. Nothing is filled, and a copy between tensors of
/// one type is not a kernel.
void create_momentum(Eager& eager, const Tensor& parameter, OptimizerState::Tensors& tensors) {
  tensors.push_back(eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kOptimizerState));
}

/// Source: torch/optim/sgd.py, _multi_tensor_sgd.
void foreach_step(Eager& eager, bool momentum, std::span<const Tensor> parameters,
                  OptimizerState& state) {
  for (const auto& group : groups_by_dtype(parameters, with_gradient(parameters))) {
    bool all_present = true;
    for (const std::size_t index : group) {
      all_present = all_present && !state.of_parameter[index].empty();
    }
    if (momentum && all_present) {
      launch_list(eager, parameters, group, ListKernel::kOneList, 2);
      launch_list(eager, parameters, group, ListKernel::kTwoLists, 3);
    }
    for (const std::size_t index : group) {
      if (!momentum || all_present) {
        break;
      }
      OptimizerState::Tensors& tensors = state.of_parameter[index];
      if (tensors.empty()) {
        create_momentum(eager, parameters[index], tensors);
      } else {
        launch_in_place(eager, parameters[index], 2, 5);
      }
    }
    launch_list(eager, parameters, group, ListKernel::kTwoLists, 3);
  }
}

/// Source: torch/optim/sgd.py, _single_tensor_sgd.
void loop_step(Eager& eager, bool momentum, std::span<const Tensor> parameters,
               OptimizerState& state) {
  for (const std::size_t index : with_gradient(parameters)) {
    OptimizerState::Tensors& tensors = state.of_parameter[index];
    if (momentum && tensors.empty()) {
      create_momentum(eager, parameters[index], tensors);
    } else if (momentum) {
      launch_in_place(eager, parameters[index], 2, 5);  // mul_, add_
    }
    launch_in_place(eager, parameters[index], 1, 3);
  }
}

/// Source: torch/optim/sgd.py, _fused_sgd.
void fused_step(Eager& eager, bool momentum, std::span<const Tensor> parameters,
                OptimizerState& state) {
  const std::vector<std::size_t> indices = with_gradient(parameters);
  for (const std::size_t index : indices) {
    if (momentum && state.of_parameter[index].empty()) {
      create_momentum(eager, parameters[index], state.of_parameter[index]);
    }
  }
  for (const auto& group : groups_by_dtype(parameters, indices)) {
    launch_list(eager, parameters, group,
                momentum ? ListKernel::kThreeLists : ListKernel::kTwoLists, momentum ? 5 : 3);
  }
}

}  // namespace

void sgd_step(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
              OptimizerState& state) {
  const bool momentum = plan.momentum != 0;
  switch (plan.form) {
    case OptimizerForm::kForeach:
      eager.set_site("sgd.foreach", -1);
      foreach_step(eager, momentum, parameters, state);
      return;
    case OptimizerForm::kFused:
      eager.set_site("sgd.fused", -1);
      fused_step(eager, momentum, parameters, state);
      return;
    case OptimizerForm::kLoop:
      eager.set_site("sgd.loop", -1);
      loop_step(eager, momentum, parameters, state);
      return;
    case OptimizerForm::kEightBit:
    case OptimizerForm::kPagedEightBit:
    case OptimizerForm::kPaged:
      break;
  }
  HEADROOM_ASSERT(false);
}

}  // namespace headroom::ir::torch
