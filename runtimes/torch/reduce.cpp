#include "runtimes/torch/reduce.h"
#include "runtimes/torch/launch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtimes/torch/eager.h"

namespace headroom::ir::torch {
namespace {

constexpr std::int64_t kMaxThreads = 512;
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMinValuesPerThread = 16;
constexpr std::int64_t kMaxValuesPerThread = 256;
constexpr std::int64_t kVector = 4;  ///< Elements per vectorised access.

std::int64_t last_power_of_two(std::int64_t value) {
  std::int64_t power = 1;
  while (power * 2 <= value) {
    power *= 2;
  }
  return power;
}

/// Threads that fit on a multiprocessor. Source: CUDA C++ Programming Guide, table "Technical
/// Specifications per Compute Capability".
std::int64_t threads_per_multiprocessor(const DeviceTraits& device) {
  if (device.compute_major == 7 && device.compute_minor == 5) {
    return 1024;
  }
  const bool consumer =
      (device.compute_major == 8 && device.compute_minor != 0) || device.compute_major == 12;
  return consumer ? 1536 : 2048;
}

/// Widest vector that divides the outputs. Source: Reduce.cuh, get_output_vec_size.
std::int64_t output_vector(std::int64_t outputs) {
  std::int64_t width = kVector;
  while (outputs % width != 0) {
    width /= 2;
  }
  return width;
}

}  // namespace

ReductionWorkspace reduction_workspace(const Reduction& reduction, const DeviceTraits& device) {
  std::int64_t dim0 = reduction.innermost ? reduction.inputs_per_output : reduction.outputs;
  const std::int64_t dim1 = reduction.innermost ? reduction.outputs : reduction.inputs_per_output;
  std::int64_t vector = 1;
  if (reduction.innermost) {
    if (dim0 > 128 && reduction.outputs == 1) {
      dim0 /= kVector;
    }
  } else {
    vector = output_vector(reduction.outputs);
    dim0 /= vector;
  }
  const std::int64_t max_threads = kMaxThreads / vector;
  const std::int64_t dim0_power =
      std::min(last_power_of_two(std::max<std::int64_t>(dim0, 1)), max_threads);
  const std::int64_t dim1_power =
      std::min(last_power_of_two(std::max<std::int64_t>(dim1, 1)), max_threads);
  std::int64_t width = std::min(dim0_power, kWarp);
  const std::int64_t height = std::min(dim1_power, max_threads / width);
  width = std::min(dim0_power, max_threads / height);

  std::int64_t step_input = reduction.innermost ? width : 1;
  std::int64_t step_output = reduction.innermost ? 1 : width;
  const auto values = [&] { return ceil_div(reduction.inputs_per_output, step_input); };
  if (values() < std::min(height * 16, kMaxValuesPerThread)) {
    return {};
  }
  step_input *= height;
  const std::int64_t target =
      device.multiprocessors * (threads_per_multiprocessor(device) / (width * height));
  const std::int64_t grid = ceil_div(reduction.outputs / vector, step_output);
  if (values() < kMaxValuesPerThread || grid > target) {
    return {};
  }
  const std::int64_t blocks =
      std::max(std::min(ceil_div(target, grid), ceil_div(values(), kMinValuesPerThread)),
               ceil_div(values(), kMaxValuesPerThread));
  if (blocks <= 1) {
    return {};
  }
  std::int64_t bytes = reduction.accumulator_bytes * reduction.outputs * blocks;
  if (!reduction.innermost) {
    bytes *= width * vector;
  }
  return {.partial_bytes = bytes, .semaphore_bytes = 4 * grid};
}

namespace {

/// One kernel of a reduction; allocates and frees its workspace.
void run_kernel(Eager& eager, const Reduction& reduction) {
  launch_kernels(eager, reduction.outputs * reduction.inputs_per_output * reduction.element_bytes);
  const ReductionWorkspace workspace = reduction_workspace(reduction, eager.device());
  if (workspace.partial_bytes > 0) {
    const BlockId partial =
        eager.allocate(workspace.partial_bytes, TensorRole::kWorkspace, eager.stream());
    const BlockId semaphores =
        eager.allocate(workspace.semaphore_bytes, TensorRole::kWorkspace, eager.stream());
    eager.release(semaphores);
    eager.release(partial);
  }
}

/// Offsets of a kernel have 32 bits, so a longer sum is halved until they suffice.
/// Source: aten/src/ATen/TensorIterator.cpp, can_use_32bit_indexing and with_32bit_indexing.
std::int64_t kernels_of(const Reduction& reduction) {
  constexpr std::int64_t kMostBytes = std::numeric_limits<std::int32_t>::max();
  std::int64_t kernels = 1;
  while (reduction.inputs_per_output / kernels * reduction.element_bytes > kMostBytes) {
    kernels *= 2;
  }
  return kernels;
}

}  // namespace

Tensor reduce(Eager& eager, const Shape& output, DType dtype, const Reduction& reduction) {
  Tensor result = eager.empty(output, dtype);
  if (reduction.outputs > 1) {
    run_kernel(eager, reduction);
    return result;
  }
  const std::int64_t kernels = kernels_of(reduction);
  Reduction part = reduction;
  part.inputs_per_output = ceil_div(reduction.inputs_per_output, kernels);
  for (std::int64_t kernel = 0; kernel < kernels; ++kernel) {
    run_kernel(eager, part);
  }
  return result;
}

Tensor sum_to(Eager& eager, Tensor gradient, const Shape& shape) {
  // Broadcasting expanded the leading dims (a weight of size H against [.., H]) or the last one (a
  // factor per row). In all other cases the operator itself sums.
  const std::int64_t outputs = shape.elements();
  const bool innermost =
      outputs == 1 || (shape.rank() > 0 && shape[-1] == 1) || gradient->layout == Layout::kColumns;
  Tensor result = reduce(eager, shape, gradient.dtype(),
                         {.outputs = outputs,
                          .inputs_per_output = gradient.elements() / outputs,
                          .innermost = innermost,
                          .accumulator_bytes = 4,
                          .element_bytes = bits_of(gradient.dtype()) / 8});
  // Leading dims are summed with the rank kept; the sum is then viewed in the narrower shape.
  result->tracked_view = gradient.shape().rank() > shape.rank();
  gradient.reset();
  return result;
}

}  // namespace headroom::ir::torch
