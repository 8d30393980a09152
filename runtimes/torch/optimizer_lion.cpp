// Lion as lion-pytorch implements it, and by way of bitsandbytes.

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/optimizer.h"

namespace headroom::ir::torch {
namespace {

/// One momentum in the parameter's type; two temporaries per parameter, for one parameter at a
/// time.
/// Source: lucidrains/lion-pytorch 0.2.5 lion_pytorch/lion_pytorch.py, update_fn.
void loop_step(Eager& eager, std::span<const Tensor> parameters, OptimizerState& state) {
  constexpr std::int64_t kOperations = 7;  // mul, mul, add, sgn, add, mul, add
  constexpr std::int64_t kMoves = 17;      // Two per operation, three if it has two operands.
  for (const std::size_t index : with_gradient(parameters)) {
    const Tensor& parameter = parameters[index];
    OptimizerState::Tensors& tensors = state.of_parameter[index];
    if (tensors.empty()) {
      tensors.push_back(
          zeros(eager, parameter.shape(), parameter.dtype(), TensorRole::kOptimizerState));
    }
    Tensor copy = eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary);
    const Tensor update = eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary);
    copy.reset();
    launch_in_place(eager, parameter, kOperations, kMoves);
  }
}

}  // namespace

void lion_step(Eager& eager, OptimizerForm form, std::span<const Tensor> parameters,
               OptimizerState& state) {
  BitsAndBytes library{.moments = 1};
  switch (form) {
    case OptimizerForm::kForeach:
    case OptimizerForm::kLoop:
      eager.set_site("lion.loop", -1);
      loop_step(eager, parameters, state);
      return;
    case OptimizerForm::kFused:
      eager.set_site("lion.fused", -1);
      break;
    case OptimizerForm::kEightBit:
      eager.set_site("lion.8bit", -1);
      library.eight_bit = true;
      break;
    case OptimizerForm::kPagedEightBit:
      eager.set_site("lion.8bit", -1);
      library.eight_bit = true;
      library.paged = true;
      break;
    case OptimizerForm::kPaged:
      eager.set_site("lion.paged", -1);
      library.paged = true;
      break;
  }
  bitsandbytes_step(eager, library, parameters, state);
}

}  // namespace headroom::ir::torch
