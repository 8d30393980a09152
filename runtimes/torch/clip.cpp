#include "runtimes/torch/clip.h"
#include "runtimes/torch/launch.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::torch {
namespace {

using Groups = std::vector<std::vector<std::size_t>>;

constexpr std::int64_t kNormsPerCleanup = 400;  ///< Tensors that one final kernel sums up.

/// One norm per gradient of a group, from partial norms per chunk of the largest.
/// Source: aten/src/ATen/native/cuda/ForeachReduceOp.cu.
void norms_of(Eager& eager, std::span<const Tensor> parameters,
              const std::vector<std::size_t>& group, std::vector<Tensor>& norms) {
  const std::vector<std::int64_t> elements = elements_of(parameters, group);
  const auto count = static_cast<std::int64_t>(group.size());
  const std::int64_t chunks =
      ceil_div(*std::max_element(elements.begin(), elements.end()), kListChunk);
  const Tensor partial = zeros(eager, Shape{count * chunks}, DType::kFp32, TensorRole::kTemporary);
  for (const std::size_t index : group) {
    norms.push_back(eager.empty(Shape{}, parameters[index].dtype(), TensorRole::kTemporary));
  }
  launch_list(eager, parameters, group, ListKernel::kOneList, 1);  // Gradients: of one type.
  count_kernels(eager, ceil_div(count, kNormsPerCleanup));
}

/// The norms in one tensor; norms of mixed types are copied to fp32 one by one.
/// Source: aten/src/ATen/native/cuda/Shape.cu, cat_out_cuda.
Tensor stack(Eager& eager, const std::vector<Tensor>& norms) {
  const auto count = static_cast<std::int64_t>(norms.size());
  const DType first = norms.front().dtype();
  const auto others = std::count_if(norms.begin(), norms.end(),
                                    [&](const Tensor& norm) { return norm.dtype() != first; });
  const DType dtype = others == 0 ? first : DType::kFp32;
  Tensor stacked = eager.empty(Shape{count}, dtype, TensorRole::kTemporary);
  if (others > 0) {
    // Norms that are already fp32 need no kernel to be cast.
    count_kernels(eager, std::count_if(norms.begin(), norms.end(), [](const Tensor& norm) {
                    return norm.dtype() != DType::kFp32;
                  }));
  } else if (count > 1) {
    count_kernels(eager, ceil_div(count, kTensorsPerConcat));
  }
  return stacked;
}

/// Norms of shards are raised to their power, summed over the ranks and brought back by the root.
/// Each step makes a new tensor.
Tensor all_reduced(Eager& eager, const Tensor& stacked, std::int64_t ranks) {
  const auto like = [&] {
    return eager.empty(stacked.shape(), stacked.dtype(), TensorRole::kTemporary);
  };
  Tensor raised = like();
  Tensor sums = like();
  count_kernels(eager, 2);
  const std::int64_t bytes = bytes_of(stacked.elements(), stacked.dtype()).value();
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllReduce, .bytes = bytes, .group = {.size = ranks}});
  Tensor norms = like();
  raised.reset();
  sums.reset();
  return norms;
}

/// The stacked norms. Norms that are equal on all ranks of a dimension are first divided into parts
/// of a sum, in new tensors.
Tensor stack_shards(Eager& eager, const std::vector<Tensor>& norms, const NormMesh& mesh) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < norms.size() && mesh.tensor_ranks > 1; ++i) {
    if (mesh.replicated[i]) {
      parts.push_back(eager.empty(Shape{}, norms[i].dtype(), TensorRole::kTemporary));
    }
  }
  Tensor stacked = stack(eager, norms);
  release_list(parts);
  return stacked;
}

Tensor total_norm(Eager& eager, std::span<const Tensor> parameters, const Groups& groups,
                  const NormMesh& mesh) {
  std::vector<Tensor> norms;
  for (const auto& group : groups) {
    norms_of(eager, parameters, group, norms);
  }
  Tensor stacked = stack_shards(eager, norms, mesh);
  Tensor reduced = mesh.ranks > 1 ? all_reduced(eager, stacked, mesh.ranks) : Tensor{};
  for (const std::int64_t ranks : {mesh.tensor_ranks, mesh.third_ranks}) {
    if (ranks > 1) {
      reduced = all_reduced(eager, stacked, ranks);
    }
  }
  const DType dtype = stacked.dtype();
  Tensor total = reduce(eager, Shape{}, dtype,
                        {.outputs = 1,
                         .inputs_per_output = stacked.elements(),
                         .innermost = true,
                         .element_bytes = bits_of(dtype) / 8});
  reduced.reset();
  stacked.reset();
  release_list(norms);
  return total;
}

Tensor scalar_like(Eager& eager, const Tensor& total) {
  count_kernels(eager, 1);
  return eager.empty(Shape{}, total.dtype(), TensorRole::kTemporary);
}

/// clip_grads_with_norm_
void scale_gradients(Eager& eager, std::span<const Tensor> parameters, const Groups& groups,
                     const Tensor& total) {
  Tensor sum = scalar_like(eager, total);         // total + 1e-6
  Tensor reciprocal = scalar_like(eager, total);  // max_norm / sum is reciprocal() * max_norm
  Tensor factor = scalar_like(eager, total);
  reciprocal.reset();
  sum.reset();
  Tensor clamped = scalar_like(eager, total);
  for (const auto& group : groups) {
    if (parameters[group.front()].dtype() == total.dtype()) {
      launch_list(eager, parameters, group, ListKernel::kOneList, 2);
      continue;
    }
    // A factor of another type prevents the list kernel.
    for (const std::size_t index : group) {
      launch_in_place(eager, parameters[index], 1, 2);
    }
  }
  factor.reset();
  clamped.reset();
}

}  // namespace

Tensor clip_grad_norm(Eager& eager, std::span<const Tensor> parameters, const NormMesh& mesh) {
  const std::vector<std::size_t> indices = with_gradient(parameters);
  if (indices.empty()) {
    return {};
  }
  const GradMode no_grad(eager, false);
  eager.set_site("clip_grad_norm", -1);
  const Groups groups = groups_by_dtype(parameters, indices);
  Tensor total = total_norm(eager, parameters, groups, mesh);
  scale_gradients(eager, parameters, groups, total);
  return total;
}

Tensor clip_grad_norm(Eager& eager, std::span<const NormGroup> groups) {
  const GradMode no_grad(eager, false);
  eager.set_site("clip_grad_norm", -1);
  std::vector<Groups> by_dtype;
  std::vector<Tensor> totals;
  for (const NormGroup& group : groups) {
    by_dtype.push_back(groups_by_dtype(group.parameters, with_gradient(group.parameters)));
    totals.push_back(total_norm(eager, group.parameters, by_dtype.back(), group.mesh));
  }
  Tensor total;
  {
    std::vector<Tensor> squares;
    for (const Tensor& each : totals) {
      squares.push_back(scalar_like(eager, each));
    }
    total = scalar_like(eager, totals.front());
    count_kernels(eager, 1);  // The root is taken in place.
    release_list(squares);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    scale_gradients(eager, groups[i].parameters, by_dtype[i], total);
  }
  release_list(totals);
  return total;
}

Tensor stacked_norms(Eager& eager, std::span<const Tensor> tensors) {
  std::vector<std::size_t> group(tensors.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  std::vector<Tensor> norms;
  norms_of(eager, tensors, group, norms);
  return stack(eager, norms);
}

}  // namespace headroom::ir::torch
