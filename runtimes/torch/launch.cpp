#include "runtimes/torch/launch.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace headroom::ir::torch {

std::int64_t bytes_of(const Tensor& tensor) {
  return tensor.defined() ? ir::bytes_of(tensor.elements(), tensor.dtype()).value() : 0;
}

std::int64_t elementwise_launches(std::int64_t elements, std::int64_t element_bytes) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  const auto fits = [element_bytes](std::int64_t count) {
    return count <= kLimit && 1 + (count - 1) * element_bytes <= kLimit;
  };
  if (elements == 0) {
    return 0;
  }
  // Repeated halving yields parts of two sizes: `least` elements, or one more.
  std::int64_t least = elements;
  std::int64_t smaller = 1;
  std::int64_t larger = 0;
  while (!fits(least)) {
    const bool even = least % 2 == 0;
    const std::int64_t halves_of_smaller = even ? 2 * smaller : smaller;
    smaller = even ? halves_of_smaller + larger : halves_of_smaller;
    larger = even ? larger : halves_of_smaller + 2 * larger;
    least /= 2;
  }
  return smaller + (fits(least + 1) ? larger : 2 * larger);
}

std::int64_t elementwise_launches(const Tensor& tensor) {
  return elementwise_launches(tensor.elements(), bits_of(tensor.dtype()) / 8);
}

void launch_kernels(Eager& eager, std::int64_t bytes, std::int64_t launches, TrafficKind kind) {
  if (launches > 0) {
    eager.run(TrafficShape{.bytes = bytes, .launches = launches, .kind = kind});
  }
}

namespace {

/// Kernels of an elementwise operator whose largest operand takes `bytes`: one, unless its offsets
/// need more than 32 bits.
std::int64_t launches_over(const Tensor& largest, std::int64_t bytes) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  return bytes <= kLimit ? 1 : elementwise_launches(largest);
}

/// Bytes that an operator moves, and its largest operand. Operands of one size and order are read
/// with vectorised accesses; operands that are broadcast or have another order are read element by
/// element.
/// Source: pytorch/pytorch aten/src/ATen/native/cuda/CUDALoops.cuh, gpu_kernel_impl_nocast.
struct Operands {
  std::int64_t bytes = 0;
  std::int64_t most = 0;
  const Tensor* largest = nullptr;
  std::int64_t first_count = 0;
  std::int64_t count = 0;  ///< Elements of the largest.
  Layout first_layout = Layout::kContiguous;
  bool one_by_one = false;

  void add(const Tensor& operand) {
    const std::int64_t own = bytes_of(operand);
    bytes += own;
    if (own > most) {
      most = own;
      largest = &operand;
    }
    if (operand.defined() && operand.elements() > 1) {
      const bool first = first_count == 0;
      first_count = first ? operand.elements() : first_count;
      first_layout = first ? operand->layout : first_layout;
      count = std::max(count, operand.elements());
      one_by_one = one_by_one || operand.elements() != first_count ||
                   operand->layout != first_layout || operand->layout == Layout::kRepeated;
    }
  }
  void run(Eager& eager) const {
    if (largest != nullptr) {
      const bool alone = one_by_one && eager.unfused();
      eager.run(TrafficShape{.bytes = bytes,
                             .launches = launches_over(*largest, most),
                             .kind = alone ? TrafficKind::kOneByOne : TrafficKind::kElementwise,
                             .elements = one_by_one ? count : 0});
    }
  }
};

}  // namespace

void launch(Eager& eager, std::initializer_list<const Tensor*> operands) {
  Operands all;
  for (const Tensor* operand : operands) {
    all.add(*operand);
  }
  all.run(eager);
}

void launch_into(Eager& eager, const Tensor& result, std::initializer_list<const Tensor*> read) {
  Operands all;
  all.add(result);
  bool widened = false;
  for (const Tensor* operand : read) {
    all.add(*operand);
    widened = widened || (operand->defined() && operand->elements() == result.elements() &&
                          bits_of(operand->dtype()) < bits_of(result.dtype()));
  }
  // A sum over rows uses vectorised reads; a wider type is written element by element.
  all.one_by_one = widened || (all.one_by_one && result.elements() == all.count);
  all.run(eager);
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
  launch_into(eager, result, read);
  return result;
}

Tensor computed(Eager& eager, const Shape& shape, DType dtype, TensorRole role) {
  Tensor result = eager.empty(shape, dtype, role);
  launch(eager, {&result, &result});
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
