#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Operators of a Python loop over experts: find an expert's tokens, whose number the host waits
/// for, and add rows back to where they came from. Shape letters: T tokens, k experts per token, E
/// experts, N tokens of one expert.
namespace headroom::ir::torch {

/// torch.nn.functional.one_hot of int64 ids: [T, k] -> [T, k, E], int64.
[[nodiscard]] Tensor one_hot(Eager& eager, const Tensor& ids, std::int64_t classes);

/// Temporary storage with which cub counts the nonzero ones of `items`: none for one tile;
/// otherwise a sum for each of five waves of blocks of 256 threads.
/// Source: NVIDIA/cccl cub/cub/device/dispatch/dispatch_reduce.cuh; sizes observed on PyTorch 2.11.
[[nodiscard]] std::int64_t count_bytes(std::int64_t items, const DeviceTraits& device);

/// Temporary storage with which cub selects the nonzero ones of `items`: the state of each tile and
/// of 32 before the first. Source: NVIDIA/cccl cub/cub/agent/single_pass_scan_operators.cuh,
/// ScanTileState; tile size
///         observed on PyTorch 2.11.
[[nodiscard]] std::int64_t pick_bytes(std::int64_t items);

/// `input.nonzero()` with `found` nonzero elements: memory order [dims, found], int64. An input
/// with another memory order must be copied first.
/// Source: aten/src/ATen/native/cuda/Nonzero.cu, nonzero_cuda_out_impl.
[[nodiscard]] Tensor nonzero(Eager& eager, const Tensor& input, std::int64_t found);

/// `target.index_add_(0, index, source)`: the result has the storage of `target`. Saves `source`
/// for its shape. Source: tools/autograd/derivatives.yaml, index_add.
[[nodiscard]] Tensor add_rows_in_place(Eager& eager, const Tensor& target, const Tensor& index,
                                       const Tensor& source);

/// `input[i]` of the first dim, a view: [E, ...] -> [...]. Backward fills a zero tensor of the
/// whole shape.
[[nodiscard]] Tensor select_first(Eager& eager, const Tensor& input);
/// input[:, i] of [T, E], viewed as a column [T, 1]. The same backward.
[[nodiscard]] Tensor select_column(Eager& eager, const Tensor& input);

/// torch.zeros(T, width).scatter_(1, index, values): [T, k] -> [T, width].
[[nodiscard]] Tensor scatter_last(Eager& eager, const Tensor& values, const Tensor& index,
                                  std::int64_t width);

}  // namespace headroom::ir::torch
