// torch.optim.AdamW: torch/optim/adam.py with decoupled weight decay.

#include <array>
#include <utility>
#include <vector>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/optimizer.h"

namespace headroom::ir::torch {
namespace {

/// Moments of parameters in their first step. `on_device`: including their step counts, which are
/// otherwise on the host. Source: torch/optim/adam.py, Adam._init_group.
void create_moments(Eager& eager, bool on_device, std::span<const Tensor> parameters,
                    OptimizerState& state) {
  for (const std::size_t index : with_gradient(parameters)) {
    OptimizerState::Tensors& tensors = state.of_parameter[index];
    if (!tensors.empty()) {
      continue;
    }
    const Tensor& parameter = parameters[index];
    if (on_device) {
      tensors.push_back(zeros(eager, Shape{}, DType::kFp32, TensorRole::kOptimizerState));
    }
    for (int moment = 0; moment < 2; ++moment) {
      tensors.push_back(
          zeros(eager, parameter.shape(), parameter.dtype(), TensorRole::kOptimizerState));
    }
  }
}

/// One list kernel of a step: its kind, and how many tensors of the parameters' size it reads and
/// writes.
struct ListStep {
  ListKernel kernel = ListKernel::kOneList;
  std::int64_t moves = 0;
};
/// Weight decay, lerp, mul, addcmul, sqrt, div by a scalar per tensor, add, addcdiv.
constexpr std::array<ListStep, 8> kAdamSteps = {{{ListKernel::kOneList, 2},
                                                 {ListKernel::kTwoLists, 3},
                                                 {ListKernel::kOneList, 2},
                                                 {ListKernel::kThreeLists, 3},
                                                 {ListKernel::kTwoLists, 2},
                                                 {ListKernel::kOneListOfScalars, 2},
                                                 {ListKernel::kOneList, 2},
                                                 {ListKernel::kThreeLists, 4}}};

/// Step counts that are on the device although the form does not need it (a checkpoint was loaded
/// there) are raised by list kernels.
void raise_step_counts(Eager& eager, std::span<const Tensor> parameters,
                       const OptimizerState& state) {
  constexpr std::size_t kWithCount = 3;
  for (const auto& group : groups_by_dtype(parameters, with_gradient(parameters))) {
    if (state.of_parameter[group.front()].size() == kWithCount) {
      const std::vector<std::int64_t> counts(group.size(), 1);
      count_kernels(eager, list_launches(counts, ListKernel::kOneList));
    }
  }
}

/// The square roots of all second moments exist at once. Those of one type live until the next
/// type's have been made. Source: torch/optim/adam.py, _multi_tensor_adam.
void foreach_update(Eager& eager, std::span<const Tensor> parameters) {
  std::vector<Tensor> roots;
  for (const auto& group : groups_by_dtype(parameters, with_gradient(parameters))) {
    std::vector<Tensor> made;
    made.reserve(group.size());
    for (const std::size_t index : group) {
      const Tensor& parameter = parameters[index];
      made.push_back(eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary));
    }
    release_list(roots);
    roots = std::move(made);
    for (const ListStep& step : kAdamSteps) {
      launch_list(eager, parameters, group, step.kernel, step.moves);
    }
  }
  release_list(roots);
}

/// Source: torch/optim/adam.py, _fused_adam; FusedAdamUtils.cuh.
void fused_update(Eager& eager, std::span<const Tensor> parameters) {
  for (const auto& group : groups_by_dtype(parameters, with_gradient(parameters))) {
    const std::vector<std::int64_t> step_counts(group.size(), 1);
    count_kernels(eager, list_launches(step_counts, ListKernel::kOneList));
    // Reads parameter, gradient and two moments; writes all but the gradient.
    launch_list(eager, parameters, group, ListKernel::kFourLists, 7, TrafficKind::kFusedStep);
  }
}

/// The denominator of one parameter lives until the next one's has been made.
/// Source: torch/optim/adam.py, _single_tensor_adam.
void loop_update(Eager& eager, std::span<const Tensor> parameters) {
  constexpr std::int64_t kOperations = 8;  // mul, lerp, mul, addcmul, sqrt, div, add, addcdiv
  constexpr std::int64_t kMoves = 20;      // As `kAdamSteps` together.
  Tensor denominator;
  for (const std::size_t index : with_gradient(parameters)) {
    const Tensor& parameter = parameters[index];
    Tensor root = eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary);
    Tensor corrected = eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary);
    root.reset();
    denominator = std::move(corrected);
    launch_in_place(eager, parameter, kOperations, kMoves);
  }
}

}  // namespace

void adamw_step(Eager& eager, OptimizerForm form, std::span<const Tensor> parameters,
                OptimizerState& state) {
  switch (form) {
    case OptimizerForm::kForeach:
      eager.set_site("adamw.foreach", -1);
      create_moments(eager, false, parameters, state);
      raise_step_counts(eager, parameters, state);
      foreach_update(eager, parameters);
      return;
    case OptimizerForm::kFused:
      eager.set_site("adamw.fused", -1);
      create_moments(eager, true, parameters, state);
      fused_update(eager, parameters);
      return;
    case OptimizerForm::kLoop:
      eager.set_site("adamw.loop", -1);
      create_moments(eager, false, parameters, state);
      loop_update(eager, parameters);
      return;
    case OptimizerForm::kEightBit:
    case OptimizerForm::kPagedEightBit:
      eager.set_site("adamw.8bit", -1);
      bitsandbytes_step(
          eager, {.moments = 2, .eight_bit = true, .paged = form == OptimizerForm::kPagedEightBit},
          parameters, state);
      return;
    case OptimizerForm::kPaged:
      eager.set_site("adamw.paged", -1);
      bitsandbytes_step(eager, {.moments = 2, .paged = true}, parameters, state);
      return;
  }
}

}  // namespace headroom::ir::torch
