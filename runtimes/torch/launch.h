#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Kernels that are bound by memory: how many an operator launches, and how many bytes they move.
namespace headroom::ir::torch {

/// Bytes of a tensor's elements; 0 for an undefined tensor.
[[nodiscard]] std::int64_t bytes_of(const Tensor& tensor);

/// Launches of an elementwise kernel over `elements` contiguous elements; the widest operand has
/// `element_bytes` per element. A kernel indexes with 32 bits, so larger tensors are halved until
/// they fit.
/// Source: pytorch/pytorch aten/src/ATen/TensorIterator.cpp, can_use_32bit_indexing, split.
[[nodiscard]] std::int64_t elementwise_launches(std::int64_t elements, std::int64_t element_bytes);

/// The same for an operation on a whole tensor.
[[nodiscard]] std::int64_t elementwise_launches(const Tensor& tensor);

/// `launches` kernels that together read and write `bytes`. Nothing if `launches` is 0.
void launch_kernels(Eager& eager, std::int64_t bytes, std::int64_t launches = 1,
                    TrafficKind kind = TrafficKind::kElementwise);

/// An elementwise operator that reads or writes each of `operands` once; undefined ones are
/// skipped. One kernel, unless offsets into the largest operand need more than 32 bits.
void launch(Eager& eager, std::initializer_list<const Tensor*> operands);

/// The same, of an operator that computes `result` from `read`.
void launch_into(Eager& eager, const Tensor& result, std::initializer_list<const Tensor*> read);

/// Writes all of a tensor: zeros, ones, a range.
void launch_fill(Eager& eager, const Tensor& tensor);

/// `target.copy_(source)`: a copy engine runs it if both tensors have the same memory order and
/// type, otherwise a kernel. Source: pytorch/pytorch aten/src/ATen/native/cuda/Copy.cu,
/// copy_device_to_device.
enum class CopyOrder : std::uint8_t { kSame, kOther };
void launch_copy(Eager& eager, const Tensor& source, const Tensor& target, CopyOrder order);

/// A new tensor that one elementwise kernel computes from `read`.
[[nodiscard]] Tensor computed(Eager& eager, const Shape& shape, DType dtype,
                              std::initializer_list<const Tensor*> read);
/// A new tensor that one kernel computes while reading as many bytes as it writes.
[[nodiscard]] Tensor computed(Eager& eager, const Shape& shape, DType dtype, TensorRole role);
[[nodiscard]] Tensor computed(Eager& eager, const Shape& shape, DType dtype);
/// A new tensor that a kernel fills.
[[nodiscard]] Tensor filled(Eager& eager, const Shape& shape, DType dtype);

}  // namespace headroom::ir::torch
