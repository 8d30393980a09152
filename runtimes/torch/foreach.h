#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Shared by torch's optimizers: kernels over lists of tensors, and the number of such kernels.
namespace headroom::ir::torch {

/// Maximum number of tensors in one launch of a list kernel, by the number of lists that it reads
/// and writes.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/MultiTensorApply.cuh,
/// depth_to_max_tensors and depth_to_max_tensors_scalarlist.
enum class ListKernel : std::uint8_t {
  kOneList = 110,
  kOneListOfScalars = 96,  ///< With a scalar per tensor.
  kTwoLists = 64,
  kThreeLists = 48,
  kFourLists = 36,
};

/// Elements per thread block of a list kernel.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/MultiTensorApply.cuh, kChunkSize.
inline constexpr std::int64_t kListChunk = 65536;
/// Inputs per kernel of torch.cat.
/// Source: pytorch/pytorch aten/src/ATen/native/cuda/Shape.cu, CAT_ARRAY_BATCH_SIZE.
inline constexpr std::int64_t kTensorsPerConcat = 128;

/// Launches of a list kernel over tensors of these sizes, in elements.
///
/// Model:  chunks of 65536 elements; a launch ends when its tensors or its 320 chunks are full.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/MultiTensorApply.cuh.
[[nodiscard]] std::int64_t list_launches(std::span<const std::int64_t> elements, ListKernel kind);

/// Adds `launches` kernels to the work of the current phase, if there is one.
void count_kernels(Eager& eager, std::int64_t launches);

/// A list kernel over tensors with `elements` elements each; it reads and writes `bytes` in total.
/// Source: aten/src/ATen/native/cuda/MultiTensorApply.cuh; Transformer Engine's
///         transformer_engine/common/multi_tensor/multi_tensor_apply.cuh launches in the same way.
void launch_list(Eager& eager, std::span<const std::int64_t> elements, std::int64_t bytes,
                 ListKernel kernel, TrafficKind kind = TrafficKind::kList);

/// A list kernel over these parameters, or over tensors of the same sizes and type. It reads and
/// writes `moves` times their bytes.
void launch_list(Eager& eager, std::span<const Tensor> parameters,
                 std::span<const std::size_t> group, ListKernel kernel, std::int64_t moves,
                 TrafficKind kind = TrafficKind::kList);

/// `operations` elementwise kernels on a tensor in place. Together they read and write `moves`
/// times its bytes.
void launch_in_place(Eager& eager, const Tensor& tensor, std::int64_t operations,
                     std::int64_t moves);
/// The same if each kernel reads and writes the tensor once.
void launch_in_place(Eager& eager, const Tensor& tensor, std::int64_t operations);

/// A tensor of zeros: an allocation and a fill.
[[nodiscard]] Tensor zeros(Eager& eager, const Shape& shape, DType dtype, TensorRole role);

/// The gradient of a parameter as a new reference; undefined if there is none.
[[nodiscard]] Tensor gradient_of(Eager& eager, const Tensor& parameter);

/// Indices into `parameters` of those with a gradient, in order.
[[nodiscard]] std::vector<std::size_t> with_gradient(std::span<const Tensor> parameters);

/// `indices` grouped by type. The type that appeared last comes first: the table is a hash map of
/// libstdc++, which iterates over its latest bucket first.
/// Source: pytorch/pytorch aten/src/ATen/native/ForeachUtils.h,
/// _group_tensors_by_first_tensors_device_and_dtype.
[[nodiscard]] std::vector<std::vector<std::size_t>> groups_by_dtype(
    std::span<const Tensor> parameters, std::span<const std::size_t> indices);

/// Elements of each of these parameters.
[[nodiscard]] std::vector<std::int64_t> elements_of(std::span<const Tensor> parameters,
                                                    std::span<const std::size_t> indices);

/// Releases a Python list: its last item first.
void release_list(std::vector<Tensor>& list);

}  // namespace headroom::ir::torch
