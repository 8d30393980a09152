// bitsandbytes' AdamW and Lion with fp32 or block-wise 8-bit states, on the device or paged.

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer.h"

namespace headroom::ir::torch {
namespace {

/// Source: bitsandbytes 0.50.2 bitsandbytes/optim/optimizer.py, Optimizer2State.init_state and
/// get_state_buffer.
constexpr std::int64_t kMinimumFor8Bit = 4096;  ///< Elements; smaller parameters get fp32 states.
constexpr std::int64_t kBlock = 256;            ///< Elements that share a factor.
constexpr std::int64_t kMinimumForPaging = 100'000;
constexpr std::int64_t kCodes = 256;  ///< Entries of a table from 8-bit code to value.

class Builder {
 public:
  Builder(Eager& eager, const BitsAndBytes& form, OptimizerState& state)
      : eager_(eager), form_(form), state_(state) {}

  void create(const Tensor& parameter, OptimizerState::Tensors& tensors) {
    const bool narrow = form_.eight_bit && parameter.elements() >= kMinimumFor8Bit;
    if (narrow && state_.shared.empty()) {
      for (int moment = 0; moment < form_.moments; ++moment) {  // Made on the host and copied.
        state_.shared.push_back(
            eager_.empty(Shape{kCodes}, DType::kFp32, TensorRole::kOptimizerState));
      }
    }
    for (int moment = 0; moment < form_.moments; ++moment) {
      buffer(parameter, narrow ? DType::kUInt8 : DType::kFp32, tensors);
    }
    for (int moment = 0; narrow && moment < form_.moments; ++moment) {
      const Shape blocks{ceil_div(parameter.elements(), kBlock)};
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

void bitsandbytes_step(Eager& eager, const BitsAndBytes& form, std::span<const Tensor> parameters,
                       OptimizerState& state) {
  Builder builder(eager, form, state);
  for (const std::size_t index : with_gradient(parameters)) {
    OptimizerState::Tensors& tensors = state.of_parameter[index];
    if (tensors.empty()) {
      builder.create(parameters[index], tensors);
    }
    // Parameter and states are read and written; the gradient is only read.
    const bool quantised = form.eight_bit && parameters[index].elements() >= kMinimumFor8Bit;
    const std::int64_t state_bytes =
        form.moments * parameters[index].elements() * (quantised ? 1 : 4);
    eager.run(
        TrafficShape{.bytes = 3 * bytes_of(parameters[index]) + 2 * state_bytes,
                     .kind = quantised ? TrafficKind::kQuantisedStep : TrafficKind::kFusedStep,
                     .elements = parameters[index].elements()});
  }
}

}  // namespace headroom::ir::torch
