#include "runtimes/transformers/loss_labels.h"

#include "runtimes/torch/launch.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

ShiftedLabels shift_labels(Eager& eager, const Tensor& ids) {
  const std::int64_t batch = ids.shape()[0];
  const std::int64_t sequence = ids.shape()[1];
  ShiftedLabels shifted;
  shifted.padded = torch::computed(eager, {batch, sequence + 1}, DType::kInt64);
  torch::launch_kernels(eager, 2 * torch::bytes_of(ids), batch > 1 ? 1 : 0);  // Fill, and copy.
  shifted.labels = batch > 1 ? torch::computed(eager, {batch, sequence}, DType::kInt64)
                             : eager.alias(shifted.padded, {batch, sequence}, true);
  return shifted;
}

LabelCount count_labels(Eager& eager, const Shape& shape) {
  LabelCount result;
  result.mask = torch::computed(eager, shape, DType::kBool);
  result.count = torch::computed(eager, {}, DType::kInt64);
  const Tensor wide = torch::computed(eager, shape, DType::kInt64);
  const torch::ReductionWorkspace workspace =
      torch::reduction_workspace({.outputs = 1,
                                  .inputs_per_output = shape.elements(),
                                  .innermost = true,
                                  .accumulator_bytes = 8,
                                  .element_bytes = 8},
                                 eager.device());
  if (workspace.partial_bytes > 0) {
    const BlockId partial = eager.allocate(workspace.partial_bytes, TensorRole::kWorkspace);
    const BlockId semaphores = eager.allocate(workspace.semaphore_bytes, TensorRole::kWorkspace);
    eager.release(semaphores);
    eager.release(partial);
  }
  return result;
}

}  // namespace headroom::ir::transformers
