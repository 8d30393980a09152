// torch.optim.Muon for the matrices of the layers, torch.optim.AdamW for the rest.

#include <algorithm>
#include <utility>
#include <vector>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::torch {
namespace {

constexpr int kIterations = 5;  ///< DEFAULT_NS_STEPS

/// ortho_grad.div_(ortho_grad.norm().clamp(min=eps))
void scale_to_norm(Eager& eager, const Tensor& matrix) {
  Tensor norm = reduce(eager, {}, matrix.dtype(),
                       {.outputs = 1,
                        .inputs_per_output = matrix.elements(),
                        .innermost = true,
                        .accumulator_bytes = 4,
                        .element_bytes = 2});
  const Tensor clamped = eager.empty({}, matrix.dtype());
  norm.reset();
  count_kernels(eager, 1);
  launch_in_place(eager, matrix, 1, 2);
}

/// A product of [m, k] and [k, n], with or without an added tensor of its shape.
Tensor product(Eager& eager, std::int64_t m, std::int64_t n, std::int64_t k) {
  Tensor result = eager.empty({m, n}, DType::kBf16, TensorRole::kTemporary);
  eager.touch_cublas();
  eager.run(GemmShape{.m = m, .n = n, .k = k, .layout = GemmLayout::kNN});
  return result;
}

/// _zeropower_via_newtonschulz in bf16, on the short side. The caller keeps the name `update`.
Tensor orthogonalise(Eager& eager, const Tensor& update) {
  const std::int64_t rows = std::min(update.shape()[0], update.shape()[1]);
  const std::int64_t columns = std::max(update.shape()[0], update.shape()[1]);
  Tensor matrix = to(eager, update, DType::kBf16);
  scale_to_norm(eager, matrix);
  Tensor gram;
  Tensor polynomial;
  for (int i = 0; i < kIterations; ++i) {
    gram = product(eager, rows, rows, columns);
    polynomial = product(eager, rows, rows, rows);
    matrix = product(eager, rows, columns, rows);
  }
  gram.reset();
  polynomial.reset();
  return matrix;
}

void step_matrices(Eager& eager, std::span<const Tensor> parameters,
                   std::span<const std::size_t> matrices, OptimizerState& state) {
  for (const std::size_t index : matrices) {
    OptimizerState::Tensors& tensors = state.of_parameter[index];
    if (tensors.empty()) {
      const Tensor& parameter = parameters[index];
      tensors.push_back(
          zeros(eager, parameter.shape(), parameter.dtype(), TensorRole::kOptimizerState));
    }
  }
  Tensor update;  // The name lives from one parameter to the next.
  for (const std::size_t index : matrices) {
    const Tensor& parameter = parameters[index];
    launch_in_place(eager, parameter, 4, 3 + 3 + 2 + 3);  // lerp twice, mul, add.
    update = eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary);
    update = orthogonalise(eager, update);
  }
}

}  // namespace

void muon_step(Eager& eager, std::span<const Tensor> parameters, OptimizerState& state) {
  std::vector<std::size_t> matrices;
  std::vector<std::size_t> rest;
  for (const std::size_t index : with_gradient(parameters)) {
    const bool matrix = index < state.layer_matrices.size() && state.layer_matrices[index];
    (matrix ? matrices : rest).push_back(index);
  }
  eager.set_site("muon", -1);
  step_matrices(eager, parameters, matrices, state);
  OptimizerState others;
  std::vector<Tensor> chosen;
  for (const std::size_t index : rest) {
    chosen.push_back(parameters[index]);
    others.of_parameter.push_back(std::move(state.of_parameter[index]));
  }
  adamw_step(eager, OptimizerForm::kForeach, chosen, others);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    state.of_parameter[rest[i]] = std::move(others.of_parameter[i]);
  }
}

}  // namespace headroom::ir::torch
