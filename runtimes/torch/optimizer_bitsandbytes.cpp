// bitsandbytes' AdamW and Lion with fp32 or block-wise 8-bit states, on the device or paged.

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer.h"

namespace headroom::ir::torch {
namespace {

/// Source: bitsandbytes 0.50.2 bitsandbytes/optim/optimizer.py, Optimizer2State.init_state and
/// get_state_buffer.
constexpr std::int64_t kMinimumFor8Bit = 4096;  ///< Elements; smaller parameters get fp32 states.
constexpr std::int64_t kMinimumForPaging = 100'000;

class Builder {
 public:
  Builder(Eager& eager, const BitsAndBytes& form, OptimizerState& state)
      : eager_(eager), form_(form), state_(state) {}

  void create(const Tensor& parameter, OptimizerState::Tensors& tensors) {
    const bool narrow = has_narrow_states(form_, parameter);
    if (narrow && state_.shared.empty()) {
      for (int moment = 0; moment < form_.moments; ++moment) {  // Made on the host and copied.
        state_.shared.push_back(
            eager_.empty(Shape{kBitsAndBytesCodes}, DType::kFp32, TensorRole::kOptimizerState));
      }
    }
    for (int moment = 0; moment < form_.moments; ++moment) {
      buffer(parameter, narrow ? DType::kUInt8 : DType::kFp32, tensors);
    }
    for (int moment = 0; narrow && moment < form_.moments; ++moment) {
      const Shape blocks{ceil_div(parameter.elements(), kBitsAndBytesBlock)};
      tensors.push_back(zeros(eager_, blocks, DType::kFp32, TensorRole::kOptimizerState));
    }
  }

 private:
  void buffer(const Tensor& parameter, DType dtype, OptimizerState::Tensors& tensors) {
    if (!form_.paged || parameter.elements() < kMinimumForPaging) {
      tensors.push_back(zeros(eager_, parameter.shape(), dtype, TensorRole::kOptimizerState));
      return;
    }
    // Unified memory, which PyTorch's allocator does not know.
    hold_on_host(eager_.program(), HostUse::kOptimizerStates, HostPages::kPageable,
                 bytes_of(parameter.elements(), dtype).value());
    count_kernels(eager_, 1);
    tensors.emplace_back();
  }

  Eager& eager_;
  const BitsAndBytes& form_;
  OptimizerState& state_;
};

}  // namespace

std::optional<BitsAndBytes> bitsandbytes_of(const OptimizerPlan& plan) {
  const bool lion = plan.kind == OptimizerKind::kLion;
  const int moments = lion ? 1 : 2;
  switch (plan.form) {
    case OptimizerForm::kEightBit:
      return BitsAndBytes{.moments = moments, .eight_bit = true};
    case OptimizerForm::kPagedEightBit:
      return BitsAndBytes{.moments = moments, .eight_bit = true, .paged = true};
    case OptimizerForm::kPaged:
      return BitsAndBytes{.moments = moments, .paged = true};
    case OptimizerForm::kFused:  // lion-pytorch has no such form.
      return lion ? std::optional(BitsAndBytes{.moments = moments}) : std::nullopt;
    case OptimizerForm::kForeach:
    case OptimizerForm::kLoop:
      break;
  }
  return std::nullopt;
}

bool has_narrow_states(const BitsAndBytes& form, const Tensor& parameter) {
  return form.eight_bit && parameter.elements() >= kMinimumFor8Bit;
}

void bitsandbytes_step(Eager& eager, const BitsAndBytes& form, std::span<const Tensor> parameters,
                       OptimizerState& state) {
  Builder builder(eager, form, state);
  for (const std::size_t index : with_gradient(parameters)) {
    OptimizerState::Tensors& tensors = state.of_parameter[index];
    if (tensors.empty()) {
      builder.create(parameters[index], tensors);
    }
    // Parameter and states are read and written; the gradient is only read.
    const bool quantised = has_narrow_states(form, parameters[index]);
    const std::int64_t state_bytes =
        form.moments * parameters[index].elements() * (quantised ? 1 : 4);
    eager.run(
        TrafficShape{.bytes = 3 * bytes_of(parameters[index]) + 2 * state_bytes,
                     .kind = quantised ? TrafficKind::kQuantisedStep : TrafficKind::kFusedStep,
                     .elements = parameters[index].elements()});
  }
}

}  // namespace headroom::ir::torch
