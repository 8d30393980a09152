// torch.optim.Adafactor, the loop over tensors that it defaults to, without weight decay.

#include <utility>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/split_reduction.h"

namespace headroom::ir::torch {
namespace {

/// Python's names in _single_tensor_adafactor, which outlive an iteration.
struct SingleTensorLocals {
  Tensor row_mean;
  Tensor column_mean;
  Tensor squared;
  Tensor estimate;  ///< Becomes the update in place.
  Tensor update;
};

Tensor temporary(Eager& eager, const Shape& shape, DType dtype) {
  Tensor tensor = eager.empty(shape, dtype, TensorRole::kTemporary);
  launch_in_place(eager, tensor, 1, 2);
  return tensor;
}

/// Source: torch/optim/_adafactor.py, Adafactor._init_group.
void create_states(Eager& eager, const Tensor& parameter, OptimizerState::Tensors& states) {
  const Shape& shape = parameter.shape();
  const auto state = [&](const Shape& of) {
    states.push_back(zeros(eager, of, parameter.dtype(), TensorRole::kOptimizerState));
  };
  if (shape.rank() > 1) {
    state(shape.with(-1, 1));
    state(shape.with(-2, 1));
  } else {
    state(shape);
  }
}

/// A norm that the host reads, which is a synchronisation.
void read_norm(Eager& eager, const Tensor& tensor) {
  const Tensor norm = reduce_all(eager, tensor);
}

/// The variance of a matrix as the product of a column and a row.
void estimate_factored(Eager& eager, const Tensor& gradient, const OptimizerState::Tensors& states,
                       SingleTensorLocals& locals) {
  const Shape& shape = gradient.shape();
  for (const bool row : {true, false}) {
    Tensor& mean = row ? locals.row_mean : locals.column_mean;
    mean = row ? reduce_last(eager, gradient, true) : reduce_second_last(eager, gradient, true);
    launch_in_place(eager, mean, 2);                 // square_, div_
    launch_in_place(eager, states[row ? 0 : 1], 1);  // lerp_
  }
  locals.estimate = eager.empty(shape, gradient.dtype(), TensorRole::kTemporary);
  eager.touch_cublas();
  eager.run(GemmShape{.m = shape.elements() / shape[-1],
                      .n = shape[-1],
                      .k = 1,
                      .dtype = gradient.dtype(),
                      .layout = GemmLayout::kNN});
  const Tensor mean = reduce_second_last(eager, states[0], true);
  launch_in_place(eager, mean, 1);             // clamp_
  launch_in_place(eager, locals.estimate, 1);  // div_
}

void step_one(Eager& eager, const Tensor& parameter, const OptimizerState::Tensors& states,
              SingleTensorLocals& locals) {
  const Tensor gradient = gradient_of(eager, parameter);
  read_norm(eager, parameter);
  if (gradient.shape().rank() > 1) {
    estimate_factored(eager, gradient, states, locals);
  } else {
    locals.squared = temporary(eager, gradient.shape(), gradient.dtype());
    launch_in_place(eager, states[0], 1);  // lerp_
    locals.estimate = eager.empty(gradient.shape(), gradient.dtype(), TensorRole::kTemporary);
  }
  locals.update = locals.estimate;
  launch_in_place(eager, locals.update, 3);  // clamp_, rsqrt_, mul_
  read_norm(eager, locals.update);
  launch_in_place(eager, parameter, 1);
}

}  // namespace

void adafactor_torch_step(Eager& eager, std::span<const Tensor> parameters, OptimizerState& state) {
  eager.set_site("adafactor.torch", -1);
  const std::vector<std::size_t> indices = with_gradient(parameters);
  for (const std::size_t index : indices) {
    if (state.of_parameter[index].empty()) {
      create_states(eager, parameters[index], state.of_parameter[index]);
    }
  }
  SingleTensorLocals locals;
  for (const std::size_t index : indices) {
    step_one(eager, parameters[index], state.of_parameter[index], locals);
  }
  locals.row_mean.reset();
  locals.column_mean.reset();
  locals.estimate.reset();
  locals.squared.reset();
  locals.update.reset();
}

}  // namespace headroom::ir::torch
