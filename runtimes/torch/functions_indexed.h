#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Operators of a loop over experts in Python: which tokens are an expert's, which the host waits
/// to be told, and rows that are added where they came from. Shape letters: T tokens, k experts per
/// token, E experts, N tokens of one expert.
namespace headroom::ir::torch {

/// torch.nn.functional.one_hot of int64 ids: [T, k] -> [T, k, E], int64.
[[nodiscard]] Tensor one_hot(Eager& eager, const Tensor& ids, std::int64_t classes);

/// Temporary storage with which cub counts `items` that are not zero: a tile needs none; else a sum
/// for each of five waves of blocks of 256 threads.
/// Source: NVIDIA/cccl cub/cub/device/dispatch/dispatch_reduce.cuh; sizes observed on PyTorch 2.11.
[[nodiscard]] std::int64_t count_bytes(std::int64_t items, const DeviceTraits& device);

/// Temporary storage with which cub picks those of `items` that are not zero: the state of each
/// tile and of 32 before the first. Source: NVIDIA/cccl
/// cub/cub/agent/single_pass_scan_operators.cuh, ScanTileState; tile size
///         observed on PyTorch 2.11.
[[nodiscard]] std::int64_t pick_bytes(std::int64_t items);

/// `input.nonzero()`, of which `found` elements are not zero: [dims, found] in memory, int64. An
/// input that lies otherwise in memory is to be copied first.
/// Source: aten/src/ATen/native/cuda/Nonzero.cu, nonzero_cuda_out_impl.
[[nodiscard]] Tensor nonzero(Eager& eager, const Tensor& input, std::int64_t found);

/// `target.index_add_(0, index, source)`: the result lives where `target` did. Keeps `source`, for
/// its shape. Source: tools/autograd/derivatives.yaml, index_add.
[[nodiscard]] Tensor add_rows_in_place(Eager& eager, const Tensor& target, const Tensor& index,
                                       const Tensor& source);

/// `input[i]` of the first dim, a view: [E, ...] -> [...]. Backward fills a zero tensor of the
/// whole.
[[nodiscard]] Tensor select_first(Eager& eager, const Tensor& input);
/// input[:, i] of [T, E], seen as a column [T, 1]. Backward likewise.
[[nodiscard]] Tensor select_column(Eager& eager, const Tensor& input);

/// torch.zeros(T, width).scatter_(1, index, values): [T, k] -> [T, width].
[[nodiscard]] Tensor scatter_last(Eager& eager, const Tensor& values, const Tensor& index,
                                  std::int64_t width);

}  // namespace headroom::ir::torch
