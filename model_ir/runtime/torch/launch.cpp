#include "model_ir/runtime/torch/launch.h"

#include <algorithm>

#include "model_ir/runtime/torch/foreach.h"

namespace headroom::ir::torch {

std::int64_t bytes_of(const Tensor& tensor) {
  return tensor.defined() ? ir::bytes_of(tensor.elements(), tensor.dtype()).value() : 0;
}

void launch_kernels(Eager& eager, std::int64_t bytes, std::int64_t launches) {
  if (launches > 0) {
    eager.run(TrafficShape{.bytes = bytes, .launches = launches});
  }
}

void launch(Eager& eager, std::initializer_list<const Tensor*> operands) {
  std::int64_t bytes = 0;
  const Tensor* largest = nullptr;
  for (const Tensor* operand : operands) {
    const std::int64_t own = bytes_of(*operand);
    if (own > 0 && (largest == nullptr || own > bytes_of(*largest))) {
      largest = operand;
    }
    bytes += own;
  }
  if (largest != nullptr) {
    launch_kernels(eager, bytes, elementwise_launches(*largest));
  }
}

void launch_fill(Eager& eager, const Tensor& tensor) {
  launch(eager, {&tensor});
}

void launch_copy(Eager& eager, const Tensor& source, const Tensor& target, CopyOrder order) {
  if (order == CopyOrder::kSame && source.dtype() == target.dtype()) {
    eager.run(CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = bytes_of(source)});
  } else {
    launch(eager, {&source, &target});
  }
}

Tensor computed(Eager& eager, const Shape& shape, DType dtype,
                std::initializer_list<const Tensor*> read) {
  Tensor result = eager.empty(shape, dtype);
  const Tensor* largest = &result;
  std::int64_t bytes = bytes_of(result);
  for (const Tensor* operand : read) {
    bytes += bytes_of(*operand);
    largest = bytes_of(*operand) > bytes_of(*largest) ? operand : largest;
  }
  launch_kernels(eager, bytes, elementwise_launches(*largest));
  return result;
}

Tensor computed(Eager& eager, const Shape& shape, DType dtype, TensorRole role) {
  Tensor result = eager.empty(shape, dtype, role);
  launch_kernels(eager, 2 * bytes_of(result), elementwise_launches(result));
  return result;
}

Tensor computed(Eager& eager, const Shape& shape, DType dtype) {
  return computed(eager, shape, dtype, eager.role());
}

Tensor filled(Eager& eager, const Shape& shape, DType dtype) {
  Tensor result = eager.empty(shape, dtype);
  launch_fill(eager, result);
  return result;
}

}  // namespace headroom::ir::torch
