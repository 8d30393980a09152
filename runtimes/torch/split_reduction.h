#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Reductions of tensors of any size. Kernels index with 32 bits, so a tensor beyond 2 GiB is
/// reduced in pieces, each with its own workspace.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/Reduce.cuh, gpu_reduce_kernel;
///         aten/src/ATen/TensorIterator.cpp, get_dim_to_split, SplitUntil32Bit.
namespace headroom::ir::torch {

/// Reduces all of `input` to one number of its type.
[[nodiscard]] Tensor reduce_all(Eager& eager, const Tensor& input);
/// Reduces the last dim, which becomes 1 if `keep` is set.
[[nodiscard]] Tensor reduce_last(Eager& eager, const Tensor& input, bool keep);
/// Reduces the last dim but one, which becomes 1 if `keep` is set.
[[nodiscard]] Tensor reduce_second_last(Eager& eager, const Tensor& input, bool keep);

/// `shape` without dim `index`; negative counts from the end.
[[nodiscard]] Shape without(const Shape& shape, int index);

}  // namespace headroom::ir::torch
