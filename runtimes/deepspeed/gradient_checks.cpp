#include "runtimes/deepspeed/gradient_checks.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

namespace {

/// The result of an elementwise operator on `input`.
Tensor like(Eager& eager, const Tensor& input, DType dtype) {
  torch::launch_kernels(eager,
                        torch::bytes_of(input) + ir::bytes_of(input.elements(), dtype).value(),
                        torch::elementwise_launches(input));
  return eager.empty(input.shape(), dtype, TensorRole::kTemporary);
}

/// (x == x) * (|x| != inf). The arguments are created from right to left.
Tensor is_finite(Eager& eager, const Tensor& input) {
  Tensor magnitude = like(eager, input, input.dtype());
  Tensor below = like(eager, input, DType::kBool);
  Tensor known = like(eager, input, DType::kBool);
  Tensor both = like(eager, input, DType::kBool);
  known.reset();
  below.reset();
  magnitude.reset();
  return both;
}

/// Reduces `elements` adjacent elements. Kernels use 32-bit indices: a range beyond 2 GiB is halved
/// until it fits, and each piece has its own workspace.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/Reduce.cuh, gpu_reduce_kernel.
void reduce_run(Eager& eager, std::int64_t elements, torch::Reduction reduction) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  if (elements > kLimit || 1 + (elements - 1) * reduction.element_bytes > kLimit) {
    reduce_run(eager, elements / 2, reduction);
    reduce_run(eager, elements - elements / 2, reduction);
    return;
  }
  torch::count_kernels(eager, 1);
  reduction.inputs_per_output = elements;
  const torch::ReductionWorkspace workspace = torch::reduction_workspace(reduction, eager.device());
  if (workspace.partial_bytes > 0) {
    const BlockId partial = eager.allocate(workspace.partial_bytes, TensorRole::kWorkspace);
    const BlockId semaphores = eager.allocate(workspace.semaphore_bytes, TensorRole::kWorkspace);
    eager.release(semaphores);
    eager.release(partial);
  }
}

/// Whether the least or the greatest element is finite. That element has the type of `tensor`.
Tensor extreme_is_finite(Eager& eager, const Tensor& tensor) {
  const Tensor extreme = reduce_all(eager, tensor, tensor.dtype());
  return is_finite(eager, extreme);
}

/// Whether any element of ~isfinite(norms) | (norms < 0) is true.
Tensor any_invalid(Eager& eager, const Tensor& norms) {
  Tensor finite = is_finite(eager, norms);
  Tensor infinite = like(eager, norms, DType::kBool);
  finite.reset();
  Tensor negative = like(eager, norms, DType::kBool);
  Tensor either = like(eager, norms, DType::kBool);
  negative.reset();
  infinite.reset();
  Tensor any = eager.empty({}, DType::kBool, TensorRole::kTemporary);
  torch::count_kernels(eager, 1);
  return any;
}

Tensor stacked(Eager& eager, std::span<const Tensor> scalars) {
  torch::count_kernels(eager, 1);
  return eager.empty({static_cast<std::int64_t>(scalars.size())}, scalars.front().dtype(),
                     TensorRole::kTemporary);
}

}  // namespace

Tensor reduce_all(Eager& eager, const Tensor& tensor, DType dtype) {
  Tensor result = eager.empty({}, dtype, TensorRole::kTemporary);
  reduce_run(eager, tensor.elements(),
             {.outputs = 1,
              .innermost = true,
              .accumulator_bytes = bits_of(dtype) / 8,
              .element_bytes = bits_of(tensor.dtype()) / 8});
  return result;
}

Tensor has_inf_or_nan(Eager& eager, const Tensor& tensor) {
  Tensor greatest = extreme_is_finite(eager, tensor);
  Tensor least = extreme_is_finite(eager, tensor);
  Tensor both = like(eager, greatest, DType::kBool);
  least.reset();
  greatest.reset();
  Tensor not_both = like(eager, both, DType::kBool);
  both.reset();
  return not_both;
}

void mask_invalid(Eager& eager, const Tensor& norm) {
  Tensor magnitude = like(eager, norm, norm.dtype());
  Tensor infinite = like(eager, norm, DType::kBool);
  magnitude.reset();
  Tensor unknown = like(eager, norm, DType::kBool);
  Tensor either = like(eager, norm, DType::kBool);
  Tensor mark = eager.empty({}, DType::kFp32, TensorRole::kTemporary);
  torch::count_kernels(eager, 1);  // masked_fill_
  infinite.reset();
  unknown.reset();
  either.reset();
}

Tensor direct_norm(Eager& eager, std::span<const Tensor> gradients, std::int64_t ranks) {
  std::vector<Tensor> norms;
  for (const Tensor& gradient : gradients) {
    const Tensor wide = like(eager, gradient, DType::kFp64);
    norms.push_back(reduce_all(eager, wide, DType::kFp64));
  }
  Tensor total;
  if (norms.empty()) {
    total = eager.empty({}, DType::kFp32, TensorRole::kTemporary);  // torch.tensor(0.0)
  } else {
    Tensor all = stacked(eager, norms);
    Tensor powers = like(eager, all, DType::kFp64);
    all.reset();
    Tensor sum = reduce_all(eager, powers, DType::kFp64);
    powers.reset();
    total = like(eager, sum, DType::kFp32);
  }
  eager.run(
      CollectiveShape{.kind = CollectiveKind::kAllReduce, .bytes = 4, .group = {.size = ranks}});
  Tensor root = like(eager, total, DType::kFp32);
  total.reset();
  mask_invalid(eager, root);
  torch::release_list(norms);
  return root;
}

Tensor combined_norm(Eager& eager, std::span<const Tensor> norms) {
  Tensor all = stacked(eager, norms);
  Tensor invalid = any_invalid(eager, all);
  Tensor combined = reduce_all(eager, all, DType::kFp32);
  Tensor infinity = like(eager, combined, DType::kFp32);
  Tensor chosen = like(eager, combined, DType::kFp32);
  infinity.reset();
  all.reset();
  invalid.reset();
  return chosen;
}

void check_norm(Eager& eager, const Tensor& norm) {
  const Tensor invalid = any_invalid(eager, norm);
}

void make_clip_factor(Eager& eager, const Tensor& norm) {
  Tensor unscaled = like(eager, norm, DType::kFp32);  // norm / loss_scale
  Tensor sum = like(eager, norm, DType::kFp32);       // + 1e-6
  unscaled.reset();
  Tensor ratio = like(eager, norm, DType::kFp32);  // / clip_grad
  sum.reset();
  Tensor clamped = like(eager, norm, DType::kFp32);
  ratio.reset();
  Tensor scale = like(eager, norm, DType::kFp32);  // * loss_scale
  Tensor reciprocal = like(eager, norm, DType::kFp32);
  Tensor factor = like(eager, norm, DType::kFp32);
  reciprocal.reset();
  factor.reset();
  scale.reset();
  clamped.reset();
}

}  // namespace headroom::ir::deepspeed
