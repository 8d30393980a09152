// transformers.optimization.Adafactor with scale_parameter=False, relative_step=False and no first
// moment.

#include <cstddef>
#include <utility>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/split_reduction.h"

namespace headroom::ir::torch {
namespace {

/// Python's names in Adafactor.step. They outlive an iteration: a tensor is released when its name
/// is assigned in the next one.
struct StepLocals {
  Tensor gradient;   ///< In fp32.
  Tensor parameter;  ///< In fp32.
  Tensor update;
};

Tensor temporary(Eager& eager, const Shape& shape) {
  Tensor tensor = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  launch_in_place(eager, tensor, 1, 2);
  return tensor;
}

bool is_half(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kFp16;
}

Tensor in_fp32(Eager& eager, const Tensor& tensor) {
  return is_half(tensor.dtype()) ? temporary(eager, tensor.shape()) : tensor;
}

/// Row and column of the last two dims, or a whole tensor; then the parameter's RMS. Rows and
/// columns are made on the host and copied.
void create_states(Eager& eager, const Shape& shape, OptimizerState::Tensors& states) {
  const auto state = [&](const Shape& of) {
    return eager.empty(of, DType::kFp32, TensorRole::kOptimizerState);
  };
  if (shape.rank() >= 2) {
    states.push_back(state(without(shape, -1)));
    states.push_back(state(without(shape, -2)));
  } else {
    states.push_back(zeros(eager, shape, DType::kFp32, TensorRole::kOptimizerState));
  }
  states.emplace_back();
}

/// `state["exp_avg_sq_row"].to(grad)`: states that a checkpoint brought in the parameter's type.
void widen_states(Eager& eager, OptimizerState::Tensors& states) {
  for (std::size_t i = 0; i + 1 < states.size(); ++i) {  // The last is replaced in any case.
    if (is_half(states[i].dtype())) {
      Tensor wide = eager.empty(states[i].shape(), DType::kFp32, TensorRole::kOptimizerState);
      launch_in_place(eager, wide, 1, 2);
      states[i] = std::move(wide);
    }
  }
}

/// `tensor.norm(2) / sqrt(count)`
Tensor root_mean_square(Eager& eager, const Tensor& tensor) {
  const Tensor norm = reduce_all(eager, tensor);
  return temporary(eager, Shape{});
}

/// The square root of row times column, inverted. Source: Adafactor._approx_sq_grad.
Tensor approximate(Eager& eager, const Tensor& row, const Tensor& column, const Shape& shape) {
  Tensor mean = reduce_last(eager, row, true);
  Tensor row_factor = temporary(eager, row.shape());
  launch_in_place(eager, row_factor, 1);  // rsqrt_
  mean.reset();
  const Tensor column_factor = temporary(eager, column.shape());
  Tensor product = temporary(eager, shape);
  row_factor.reset();
  return product;
}

/// Updates the second moment with the squared gradient and computes the direction of the step.
void update_moment(Eager& eager, const OptimizerState::Tensors& states, StepLocals& locals) {
  const Shape shape = locals.gradient.shape();
  Tensor squared = temporary(eager, shape);
  Tensor shifted = temporary(eager, shape);  // Plus epsilon.
  squared.reset();
  locals.update = std::move(shifted);
  if (shape.rank() >= 2) {
    for (const bool row : {true, false}) {
      const Tensor& state = states[row ? 0 : 1];
      launch_in_place(eager, state, 1);
      const Tensor mean = row ? reduce_last(eager, locals.update, false)
                              : reduce_second_last(eager, locals.update, false);
      launch_in_place(eager, state, 1);
    }
    locals.update = approximate(eager, states[0], states[1], shape);
  } else {
    launch_in_place(eager, states[0], 2);
    locals.update = temporary(eager, shape);  // rsqrt
  }
  launch_in_place(eager, locals.update, 1);  // Times the gradient.
}

void step_one(Eager& eager, const Tensor& parameter, OptimizerState::Tensors& states,
              StepLocals& locals) {
  locals.gradient.reset();
  locals.gradient = in_fp32(eager, gradient_of(eager, parameter));
  if (states.empty()) {
    create_states(eager, parameter.shape(), states);
  } else {
    widen_states(eager, states);
  }
  locals.parameter.reset();
  locals.parameter = in_fp32(eager, parameter);
  Tensor scale = root_mean_square(eager, locals.parameter);
  eager.relabel(scale, TensorRole::kOptimizerState);
  states.back() = std::move(scale);
  update_moment(eager, states, locals);
  {
    Tensor mean = root_mean_square(eager, locals.update);
    const Tensor clipped = temporary(eager, Shape{});
    mean.reset();
    launch_in_place(eager, clipped, 1);  // clamp_
    launch_in_place(eager, locals.update, 1);
  }
  launch_in_place(eager, locals.update, 1);  // Times the learning rate.
  {
    const Tensor negative = temporary(eager, parameter.shape());
    launch_in_place(eager, locals.parameter, 1);
  }
  if (is_half(parameter.dtype())) {
    launch_in_place(eager, locals.parameter, 1);  // Copied back.
  }
}

}  // namespace

void adafactor_step(Eager& eager, std::span<const Tensor> parameters, OptimizerState& state) {
  eager.set_site("adafactor", -1);
  StepLocals locals;
  for (const std::size_t index : with_gradient(parameters)) {
    step_one(eager, parameters[index], state.of_parameter[index], locals);
  }
  locals.gradient.reset();
  locals.parameter.reset();
  locals.update.reset();
}

}  // namespace headroom::ir::torch
