#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Reductions of tensors of any size: kernels index with 32 bits, so a tensor beyond 2 GiB is
/// reduced in pieces, each with a workspace of its own.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/Reduce.cuh, gpu_reduce_kernel;
///         aten/src/ATen/TensorIterator.cpp, get_dim_to_split, SplitUntil32Bit.
namespace headroom::ir::torch {

/// One number from all of `input`, in its type.
[[nodiscard]] Tensor reduce_all(Eager& eager, const Tensor& input);
/// Over the last dim, which stays as 1 if `keep`.
[[nodiscard]] Tensor reduce_last(Eager& eager, const Tensor& input, bool keep);
/// Over the last dim but one, which stays as 1 if `keep`.
[[nodiscard]] Tensor reduce_second_last(Eager& eager, const Tensor& input, bool keep);

/// `shape` without dim `index`; negative counts from the end.
[[nodiscard]] Shape without(const Shape& shape, int index);

}  // namespace headroom::ir::torch
