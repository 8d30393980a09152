#include <algorithm>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Rows up to which the embedding's backward needs no sorting.
/// Source: aten/src/ATen/native/cuda/Embedding.cu, embedding_dense_backward_cuda.
constexpr std::int64_t kUnsortedRows = 3072;
/// Source: aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu, NROWS_PER_THREAD.
constexpr std::int64_t kRowsPerThread = 10;
/// Source: the same file, MAX_ATOMIC_ACCUM_BLOCKS_PER_SM, and SortingCommon.cuh, MAX_BLOCK_SIZE.
constexpr std::int64_t kFusedBlocksPerMultiprocessor = 4;
constexpr std::int64_t kMaxBlock = 1024;
/// Kernels of the sorted backward in addition to the zero fill: sort, segments, scans, sums.
/// Source: observed on PyTorch 2.11.
constexpr std::int64_t kSortedKernels = 20;
/// CUB aligns its temporaries to this and requests the same number minus one in addition.
constexpr std::int64_t kCubAlignment = 256;

/// Elements per thread block of CUB's kernels, by GPU generation.
/// Source: observed on PyTorch 2.11 with int64 keys; NVIDIA/cccl cub/device/dispatch/tuning.
struct CubTiles {
  std::int64_t unique = 4480;
  std::int64_t scan = 896;
};

CubTiles cub_tiles(const DeviceTraits& device) {
  CubTiles tiles;
  if (device.compute_major < 9) {
    tiles.unique = 1792;
  } else if (device.compute_major > 9) {
    tiles.unique = 3840;
  }
  return tiles;
}

/// cub::DeviceScan and DeviceSelect: 16 bytes of look-back state per tile, for one more warp of
/// tiles.
std::int64_t scan_bytes(std::int64_t elements, std::int64_t tile) {
  return align_up((ceil_div(elements, tile) + 32) * 16, kCubAlignment) + kCubAlignment +
         kCubAlignment - 1;
}

/// Whether a gradient of few, long segments is summed with atomics; narrower types are summed in
/// fp32.
bool is_fused(const Eager& eager, std::int64_t segments, std::int64_t partials,
              std::int64_t width) {
  const std::int64_t lanes = align_up(width, 32);
  const std::int64_t blocks = ceil_div(segments * lanes, std::min(lanes, kMaxBlock));
  return blocks < eager.device().multiprocessors * kFusedBlocksPerMultiprocessor &&
         partials > blocks * 4;
}

}  // namespace

bool sorts_embedding_rows(std::int64_t rows) {
  return rows > kUnsortedRows;
}

Tensor sorted_embedding_gradient(Eager& eager, std::int64_t rows, const Shape& weight,
                                 DType dtype) {
  const CubTiles tiles = cub_tiles(eager.device());
  const auto ids = [&](std::int64_t count) {
    return eager.empty({count}, DType::kInt64, TensorRole::kWorkspace);
  };
  const auto scratch = [&](std::int64_t bytes) {
    const Tensor temporary = eager.empty({bytes}, DType::kUInt8, TensorRole::kWorkspace);
  };
  Tensor sorted = ids(rows);
  Tensor order = ids(rows);
  {
    const Tensor range = ids(rows);
    scratch(radix_sort_bytes(rows, 64, eager.device()));
  }
  Tensor gradient = eager.empty(weight, dtype);
  const std::int64_t segments = std::min(rows, weight[0]);
  const std::int64_t partials = rows / kRowsPerThread + segments;
  Tensor offsets = ids(rows);
  Tensor count = ids(1);
  {
    const Tensor kept = ids(rows);  // The unique keys, which are not used.
    scratch(scan_bytes(rows, tiles.unique));
  }
  Tensor sizes = ids(segments);
  Tensor starts = ids(segments);
  scratch(scan_bytes(segments, tiles.scan));
  Tensor partial_count = ids(1);
  Tensor partial_offsets = ids(partials);
  if (is_fused(eager, segments, partials, weight[1])) {
    Tensor segment_of = ids(partials);
    if (dtype != DType::kFp32) {
      const Tensor wide = eager.empty(weight, DType::kFp32, TensorRole::kWorkspace);
    }
    segment_of.reset();
  } else {
    const Tensor sums = eager.empty({partials, weight[1]}, DType::kFp32, TensorRole::kWorkspace);
  }
  for (Tensor* temporary : {&partial_offsets, &partial_count, &starts, &sizes, &count, &offsets}) {
    temporary->reset();
  }
  return gradient;
}

namespace {

Gradients embedding_gradients(Eager& eager, Gradients& grads, Node& node) {
  const Tensor saved = node.saved[0].unpack(eager);
  const Shape& weight = node.input_shapes[0];
  const DType dtype = grads[0].dtype();
  // The kernels require both to be contiguous.
  const Tensor ids = saved->layout == Layout::kRepeated
                         ? eager.empty(saved.shape(), DType::kInt64, TensorRole::kWorkspace)
                         : Tensor{};
  const Tensor rows =
      grads[0]->layout == Layout::kContiguous ? Tensor{} : eager.empty(grads[0].shape(), dtype);
  const std::int64_t count = saved.elements();
  launch(eager, {&ids});
  launch(eager, {&rows, &rows});
  if (sorts_embedding_rows(count)) {
    const Tensor gradient = sorted_embedding_gradient(eager, count, weight, dtype);
    launch_fill(eager, gradient);
    launch_kernels(eager, 2 * bytes_of(gradient) / std::max<std::int64_t>(1, weight[0] / count),
                   kSortedKernels);
    return {gradient};
  }
  Tensor gradient = filled(eager, weight, dtype);
  launch(eager, {&grads[0], &grads[0], &grads[0]});  // Rows are summed in place.
  return {std::move(gradient)};
}

}  // namespace

Tensor embedding(Eager& eager, const Tensor& weight, const Tensor& ids) {
  Record record(eager, {&weight});
  record.save(ids);
  const Shape& rows = ids.shape();
  const Tensor flat = ids->layout == Layout::kRepeated
                          ? eager.empty(rows, DType::kInt64, TensorRole::kWorkspace)
                          : Tensor{};  // reshape(-1)
  launch(eager, {&flat});
  Tensor output = computed(eager, {rows[0], rows[1], weight.shape()[1]}, weight.dtype());
  if (record.active()) {
    record.finish(output, embedding_gradients);
  }
  return output;
}

}  // namespace headroom::ir::torch
