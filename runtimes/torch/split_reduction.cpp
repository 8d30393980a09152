#include "runtimes/torch/split_reduction.h"
#include "runtimes/torch/launch.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "model_ir/base/check.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::torch {
namespace {

/// A dim of the loop over input and output. Strides are in bytes; 0 if the output does not move.
struct LoopDim {
  std::int64_t size = 1;
  std::int64_t input_stride = 0;
  std::int64_t output_stride = 0;
  [[nodiscard]] bool reduced() const { return output_stride == 0; }
};

using Loop = std::vector<LoopDim>;  ///< Reduced dims first, then by growing stride.

bool fits_32_bits(const Loop& loop) {
  std::int64_t count = 1;
  std::int64_t input = 1;
  std::int64_t output = 1;
  for (const LoopDim& dim : loop) {
    count *= dim.size;
    input += (dim.size - 1) * dim.input_stride;
    output += (dim.size - 1) * dim.output_stride;
  }
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  return count <= kLimit && input <= kLimit && output <= kLimit;
}

std::size_t dim_to_split(const Loop& loop) {
  std::size_t widest = loop.size() - 1;
  std::int64_t extent = -1;
  for (std::size_t i = loop.size(); i-- > 0;) {
    const std::int64_t reach =
        (loop[i].size - 1) * std::max(loop[i].input_stride, loop[i].output_stride);
    if (reach > extent) {
      extent = reach;
      widest = i;
    }
  }
  return widest;
}

Reduction reduction_of(const Loop& loop, std::int64_t element_bytes) {
  Reduction reduction{.element_bytes = element_bytes};
  for (const LoopDim& dim : loop) {
    (dim.reduced() ? reduction.inputs_per_output : reduction.outputs) *= dim.size;
  }
  // One dim is always reduced: a single dim is the reduced one.
  reduction.innermost = loop.size() == 1 || loop[0].input_stride < loop[1].input_stride;
  return reduction;
}

void run(Eager& eager, const Loop& loop, std::int64_t element_bytes) {
  if (!fits_32_bits(loop)) {
    const std::size_t at = dim_to_split(loop);
    Loop half = loop;
    half[at].size = loop[at].size / 2;
    run(eager, half, element_bytes);
    half[at].size = loop[at].size - half[at].size;
    run(eager, half, element_bytes);
    return;
  }
  const Reduction reduction = reduction_of(loop, element_bytes);
  launch_kernels(eager, reduction.outputs * reduction.inputs_per_output * element_bytes);
  const ReductionWorkspace workspace = reduction_workspace(reduction, eager.device());
  if (workspace.partial_bytes > 0) {
    const BlockId partial = eager.allocate(workspace.partial_bytes, TensorRole::kWorkspace);
    const BlockId semaphores = eager.allocate(workspace.semaphore_bytes, TensorRole::kWorkspace);
    eager.release(semaphores);
    eager.release(partial);
  }
}

Tensor reduce_loop(Eager& eager, const Tensor& input, const Shape& shape, const Loop& loop) {
  Tensor output = eager.empty(shape, input.dtype(), TensorRole::kTemporary);
  // Pieces accumulate in fp32, or in the output itself if that is fp32.
  Tensor sums;
  if (!fits_32_bits(loop) && input.dtype() != DType::kFp32) {
    sums = eager.empty(shape, DType::kFp32, TensorRole::kWorkspace);
  }
  run(eager, loop, bits_of(input.dtype()) / 8);
  return output;
}

}  // namespace

Shape without(const Shape& shape, int index) {
  const int rank = shape.rank();
  const int skipped = index < 0 ? rank + index : index;
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  int count = 0;
  for (int i = 0; i < rank; ++i) {
    if (i != skipped) {
      dims[static_cast<std::size_t>(count++)] = shape[i];
    }
  }
  switch (count) {
    case 0:
      return Shape{};
    case 1:
      return Shape{dims[0]};
    case 2:
      return Shape{dims[0], dims[1]};
    case 3:
      return Shape{dims[0], dims[1], dims[2]};
    default:
      HEADROOM_ASSERT(count <= 5);
      return count == 4 ? Shape{dims[0], dims[1], dims[2], dims[3]}
                        : Shape{dims[0], dims[1], dims[2], dims[3], dims[4]};
  }
}

Tensor reduce_all(Eager& eager, const Tensor& input) {
  const std::int64_t element = bits_of(input.dtype()) / 8;
  return reduce_loop(eager, input, Shape{},
                     {{.size = input.elements(), .input_stride = element, .output_stride = 0}});
}

Tensor reduce_last(Eager& eager, const Tensor& input, bool keep) {
  const std::int64_t element = bits_of(input.dtype()) / 8;
  const std::int64_t last = input.shape()[-1];
  const std::int64_t outer = input.elements() / last;
  Loop loop{{.size = last, .input_stride = element, .output_stride = 0}};
  if (outer > 1) {
    loop.push_back({.size = outer, .input_stride = last * element, .output_stride = element});
  }
  const Shape shape = keep ? input.shape().with(-1, 1) : without(input.shape(), -1);
  return reduce_loop(eager, input, shape, loop);
}

Tensor reduce_second_last(Eager& eager, const Tensor& input, bool keep) {
  const std::int64_t element = bits_of(input.dtype()) / 8;
  const std::int64_t columns = input.shape()[-1];
  const std::int64_t rows = input.shape()[-2];
  const std::int64_t outer = input.elements() / (rows * columns);
  Loop loop{{.size = rows, .input_stride = columns * element, .output_stride = 0}};
  if (columns > 1) {
    loop.push_back({.size = columns, .input_stride = element, .output_stride = element});
  }
  if (outer > 1) {
    loop.push_back({.size = outer,
                    .input_stride = rows * columns * element,
                    .output_stride = columns * element});
  }
  const Shape shape = keep ? input.shape().with(-2, 1) : without(input.shape(), -2);
  return reduce_loop(eager, input, shape, loop);
}

}  // namespace headroom::ir::torch
