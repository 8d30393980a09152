#include "runtimes/torch/foreach.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtimes/torch/launch.h"

namespace headroom::ir::torch {
namespace {

constexpr std::int64_t kMaxChunks = 320;  ///< Thread blocks per launch.

}  // namespace

std::int64_t list_launches(std::span<const std::int64_t> elements, ListKernel kind) {
  const auto max_tensors = static_cast<std::int64_t>(kind);
  std::int64_t launches = 0;
  std::int64_t tensors = 0;
  std::int64_t chunks = 0;
  for (const std::int64_t count : elements) {
    std::int64_t left = ceil_div(count, kListChunk);
    if (left == 0) {
      continue;
    }
    ++tensors;
    while (left > 0) {
      const std::int64_t taken = std::min(left, kMaxChunks - chunks);
      left -= taken;
      chunks += taken;
      const bool tensors_full = tensors == max_tensors && left == 0;
      if (!tensors_full && chunks < kMaxChunks) {
        continue;
      }
      ++launches;
      chunks = 0;
      tensors = left > 0 ? 1 : 0;  // The rest of this tensor begins the next launch.
    }
  }
  return launches + (chunks > 0 ? 1 : 0);
}

void count_kernels(Eager& eager, std::int64_t launches) {
  eager.run(TrafficShape{.bytes = 0, .launches = launches});
}

void launch_list(Eager& eager, std::span<const std::int64_t> elements, std::int64_t bytes,
                 ListKernel kernel, TrafficKind kind) {
  const std::int64_t launches = list_launches(elements, kernel);
  if (launches > 0) {
    eager.run(TrafficShape{
        .bytes = bytes,
        .launches = launches,
        .kind = kind,
        .elements = std::accumulate(elements.begin(), elements.end(), std::int64_t{0})});
  }
}

void launch_list(Eager& eager, std::span<const Tensor> parameters,
                 std::span<const std::size_t> group, ListKernel kernel, std::int64_t moves,
                 TrafficKind kind) {
  std::int64_t bytes = 0;
  for (const std::size_t index : group) {
    bytes += bytes_of(parameters[index]);
  }
  launch_list(eager, elements_of(parameters, group), moves * bytes, kernel, kind);
}

void launch_in_place(Eager& eager, const Tensor& tensor, std::int64_t operations,
                     std::int64_t moves) {
  launch_kernels(eager, moves * bytes_of(tensor), operations * elementwise_launches(tensor));
}

void launch_in_place(Eager& eager, const Tensor& tensor, std::int64_t operations) {
  launch_in_place(eager, tensor, operations, 2 * operations);
}

Tensor zeros(Eager& eager, const Shape& shape, DType dtype, TensorRole role) {
  Tensor tensor = eager.empty(shape, dtype, role);
  launch_in_place(eager, tensor, 1, 1);
  return tensor;
}

Tensor gradient_of(Eager& eager, const Tensor& parameter) {
  return {eager, parameter->grad};
}

std::vector<std::size_t> with_gradient(std::span<const Tensor> parameters) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i]->grad != nullptr) {
      indices.push_back(i);
    }
  }
  return indices;
}

std::vector<std::vector<std::size_t>> groups_by_dtype(std::span<const Tensor> parameters,
                                                      std::span<const std::size_t> indices) {
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t index : indices) {
    const DType dtype = parameters[index].dtype();
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& each) {
      return parameters[each.front()].dtype() == dtype;
    });
    if (group == groups.end()) {
      group = groups.insert(groups.begin(), std::vector<std::size_t>{});
    }
    group->push_back(index);
  }
  return groups;
}

std::vector<std::int64_t> elements_of(std::span<const Tensor> parameters,
                                      std::span<const std::size_t> indices) {
  std::vector<std::int64_t> elements;
  elements.reserve(indices.size());
  for (const std::size_t index : indices) {
    elements.push_back(parameters[index].elements());
  }
  return elements;
}

void release_list(std::vector<Tensor>& list) {
  while (!list.empty()) {
    list.pop_back();
  }
}

}  // namespace headroom::ir::torch
