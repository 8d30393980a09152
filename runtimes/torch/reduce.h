#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

class Eager;

/// A sum, mean or maximum over part of a tensor, after its dims have been merged to two.
struct Reduction {
  std::int64_t outputs = 1;            ///< Elements of the output.
  std::int64_t inputs_per_output = 1;  ///< Elements reduced into each output.
  bool innermost = false;              ///< The reduced elements are contiguous in memory.
  std::int64_t accumulator_bytes = 4;  ///< bf16 and fp16 are summed in fp32.
  std::int64_t element_bytes = 2;      ///< Of the input.
};

/// Device memory for a reduction that is split across thread blocks; zero if it is not split.
struct ReductionWorkspace {
  std::int64_t partial_bytes = 0;
  std::int64_t semaphore_bytes = 0;
  friend bool operator==(const ReductionWorkspace&, const ReductionWorkspace&) = default;
};

/// The workspace of ATen's reduction kernel.
///
/// Model:  block and grid as setReduceConfig chooses them; global_memory_size and semaphore_size.
/// Source: pytorch/pytorch aten/src/ATen/native/cuda/Reduce.cuh.
[[nodiscard]] ReductionWorkspace reduction_workspace(const Reduction& reduction,
                                                     const DeviceTraits& device);

/// The output of a reduction, after its workspace has been allocated and freed.
[[nodiscard]] Tensor reduce(Eager& eager, const Shape& output, DType dtype,
                            const Reduction& reduction);

/// `gradient` summed down to the shape it was broadcast from.
[[nodiscard]] Tensor sum_to(Eager& eager, Tensor gradient, const Shape& shape);

}  // namespace headroom::ir::torch
