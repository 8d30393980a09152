#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

class Eager;

/// A sum, mean or maximum over part of a tensor, after its dims have been merged to two.
struct Reduction {
  std::int64_t outputs = 1;            ///< Elements that stay.
  std::int64_t inputs_per_output = 1;  ///< Elements that go into each.
  bool innermost = false;              ///< The reduced elements lie side by side in memory.
  std::int64_t accumulator_bytes = 4;  ///< bf16 and fp16 are summed in fp32.
  std::int64_t element_bytes = 2;      ///< Of the input.
};

/// Device memory with which a reduction is split across thread blocks; zero when it is not.
struct ReductionWorkspace {
  std::int64_t partial_bytes = 0;
  std::int64_t semaphore_bytes = 0;
  friend bool operator==(const ReductionWorkspace&, const ReductionWorkspace&) = default;
};

/// What ATen's reduction kernel asks for.
///
/// Model:  block and grid as setReduceConfig chooses them; global_memory_size and semaphore_size.
/// Source: pytorch/pytorch aten/src/ATen/native/cuda/Reduce.cuh.
[[nodiscard]] ReductionWorkspace reduction_workspace(const Reduction& reduction,
                                                     const DeviceTraits& device);

/// The output of a reduction, its workspace taken and given back.
[[nodiscard]] Tensor reduce(Eager& eager, const Shape& output, DType dtype,
                            const Reduction& reduction);

/// `gradient` summed down to the shape it was broadcast from.
[[nodiscard]] Tensor sum_to(Eager& eager, Tensor gradient, const Shape& shape);

}  // namespace headroom::ir::torch
