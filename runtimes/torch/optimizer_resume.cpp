#include "runtimes/torch/optimizer_resume.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/split_reduction.h"

namespace headroom::ir::torch {
namespace {

/// A state of a parameter in a checkpoint, by its key in the optimizer.
struct SavedState {
  Shape shape;
  DType dtype = DType::kFp32;
  bool counts_steps = false;  ///< A tensor that counts steps.
  bool shared = false;        ///< One tensor of the checkpoint for all parameters.
};
using SavedStates = std::vector<SavedState>;

SavedStates adamw_states(const Tensor& parameter) {
  const SavedState moment{.shape = parameter.shape(), .dtype = parameter.dtype()};
  return {SavedState{.shape = {}, .counts_steps = true}, moment, moment};
}

/// The factored moment that both Adafactors keep, without what they keep besides.
SavedStates factored_moment(const Shape& shape, const Shape& row, const Shape& column,
                            DType dtype) {
  if (shape.rank() < 2) {
    return {SavedState{.shape = shape, .dtype = dtype}};
  }
  return {SavedState{.shape = row, .dtype = dtype}, SavedState{.shape = column, .dtype = dtype}};
}

/// state1, qmap1, state2, qmap2, absmax1, absmax2; fp32 states have neither tables nor factors.
SavedStates bitsandbytes_states(const BitsAndBytes& form, const Tensor& parameter) {
  SavedStates states;
  const bool narrow = has_narrow_states(form, parameter);
  for (int moment = 0; moment < form.moments; ++moment) {
    states.push_back({.shape = parameter.shape(), .dtype = narrow ? DType::kUInt8 : DType::kFp32});
    if (narrow) {
      states.push_back({.shape = Shape{kBitsAndBytesCodes}, .shared = true});
    }
  }
  for (int moment = 0; narrow && moment < form.moments; ++moment) {
    states.push_back({.shape = Shape{ceil_div(parameter.elements(), kBitsAndBytesBlock)}});
  }
  return states;
}

SavedStates states_of(const OptimizerPlan& plan, const Tensor& parameter, bool layer_matrix) {
  const Shape& shape = parameter.shape();
  const SavedState moment{.shape = shape, .dtype = parameter.dtype()};
  if (const std::optional<BitsAndBytes> library = bitsandbytes_of(plan)) {
    return bitsandbytes_states(*library, parameter);
  }
  switch (plan.kind) {
    case OptimizerKind::kAdamW:
      return adamw_states(parameter);
    case OptimizerKind::kSgd:
      return plan.momentum != 0 ? SavedStates{moment} : SavedStates{};
    case OptimizerKind::kLion:
      return {moment};
    case OptimizerKind::kMuon:
      return layer_matrix ? SavedStates{moment} : adamw_states(parameter);
    case OptimizerKind::kAdafactorTorch: {
      const bool factored = shape.rank() > 1;
      SavedStates states = factored_moment(shape, factored ? shape.with(-1, 1) : shape,
                                           factored ? shape.with(-2, 1) : shape, parameter.dtype());
      states.insert(states.begin(), SavedState{.shape = {}, .counts_steps = true});
      return states;
    }
    case OptimizerKind::kAdafactor: {
      const bool factored = shape.rank() > 1;
      SavedStates states = factored_moment(shape, factored ? without(shape, -1) : shape,
                                           factored ? without(shape, -2) : shape, DType::kFp32);
      states.push_back(SavedState{});  // The parameter's root mean square.
      return states;
    }
    case OptimizerKind::kNone:
      break;
  }
  return {};
}

/// A checkpoint whose tensors lie where torch.load has put them.
class LoadedCheckpoint {
 public:
  LoadedCheckpoint(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
                   const OptimizerState& state)
      : eager_(eager), parameters_(parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool matrix = i < state.layer_matrices.size() && state.layer_matrices[i];
      saved_.push_back(parameters[i].defined() ? states_of(plan, parameters[i], matrix)
                                               : SavedStates{});
    }
    tensors_.resize(saved_.size());
  }

  /// torch.load with the device as map_location.
  void read_to_device() { copy_all(CopyKind::kHostToDevice); }

  /// bitsandbytes' `state_dict = deepcopy(state_dict)`: the copies exist before the tensors that
  /// they replace are let go.
  /// Source: pytorch/pytorch 2.11 torch/_tensor.py, __deepcopy__ (new_empty([]), then set_).
  void clone_on_device() {
    const std::vector<OptimizerState::Tensors> originals = std::move(tensors_);
    tensors_.assign(saved_.size(), {});
    copy_all(CopyKind::kDeviceToDevice);
  }

  /// The states as the optimizer keeps them. Tensors on the host are copied one by one.
  std::vector<OptimizerState::Tensors> states(bool casts, bool counts_on_device) {
    std::vector<OptimizerState::Tensors> states(saved_.size());
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      for (std::size_t k = 0; k < saved_[i].size(); ++k) {
        const SavedState& saved = saved_[i][k];
        const bool on_device = !tensors_[i].empty();
        if (saved.counts_steps && !on_device && !counts_on_device) {
          continue;
        }
        const DType dtype = casts && !saved.counts_steps ? parameters_[i].dtype() : saved.dtype;
        if (!on_device) {  // PyTorch converts on the host.
          states[i].push_back(copied(saved.shape, dtype, CopyKind::kHostToDevice));
        } else {
          states[i].push_back(dtype == saved.dtype ? tensors_[i][k]
                                                   : converted(tensors_[i][k], dtype));
        }
      }
    }
    return states;
  }

 private:
  Tensor copied(const Shape& shape, DType dtype, CopyKind kind) {
    Tensor copy = eager_.empty(shape, dtype, TensorRole::kOptimizerState);
    eager_.run(CopyShape{.kind = kind, .bytes = bytes_of(copy)});
    return copy;
  }

  Tensor converted(const Tensor& tensor, DType dtype) {
    Tensor copy = eager_.empty(tensor.shape(), dtype, TensorRole::kOptimizerState);
    launch_in_place(eager_, copy, 1, 2);
    return copy;
  }

  void copy_all(CopyKind kind) {
    std::vector<Tensor> shared;  // The first parameter's, by their places.
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      std::size_t place = 0;
      for (const SavedState& saved : saved_[i]) {
        if (saved.shared && place < shared.size()) {
          tensors_[i].push_back(shared[place++]);
          continue;
        }
        tensors_[i].push_back(copied(saved.shape, saved.dtype, kind));
        if (kind == CopyKind::kDeviceToDevice) {
          const Tensor empty = eager_.empty(Shape{}, saved.dtype, TensorRole::kTemporary);
        }
        if (saved.shared) {
          shared.push_back(tensors_[i].back());
          ++place;
        }
      }
    }
  }

  Eager& eager_;
  std::span<const Tensor> parameters_;
  std::vector<SavedStates> saved_;
  std::vector<OptimizerState::Tensors> tensors_;  ///< Empty while they are on the host.
};

}  // namespace

void load_states(Eager& eager, const OptimizerPlan& plan, std::span<const Tensor> parameters,
                 StatesFrom from, OptimizerState& state) {
  if (plan.kind == OptimizerKind::kNone) {
    return;
  }
  eager.set_site("load_state_dict", -1);
  LoadedCheckpoint checkpoint(eager, plan, parameters, state);
  const bool of_bitsandbytes = bitsandbytes_of(plan).has_value();
  if (from == StatesFrom::kDevice) {
    checkpoint.read_to_device();
    if (of_bitsandbytes) {
      checkpoint.clone_on_device();
    }
  }
  state.of_parameter = checkpoint.states(!of_bitsandbytes, plan.form == OptimizerForm::kFused);
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
