#include "runtimes/deepspeed/quantised_tensor.h"

#include <algorithm>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

std::int64_t quantisation_groups(std::int64_t elements) {
  constexpr std::int64_t kTarget = 8000;  // CUDAQuantizer.target_group_size
  constexpr std::int64_t kVector = 8;     // Elements that the kernel reads at once.
  HEADROOM_ASSERT(elements > 0 && elements % kVector == 0);
  std::int64_t groups = ceil_div(elements, kTarget);
  while (elements % (kVector * groups) != 0) {
    ++groups;
  }
  while (elements % (kVector * groups * 2) == 0 && elements > kTarget * groups) {
    groups *= 2;
  }
  return groups;
}

QuantisedTensor quantise(torch::Eager& eager, Tensor input) {
  const std::int64_t elements = input.elements();
  if (input.dtype() != DType::kFp16) {
    input = torch::computed(eager, {elements}, DType::kFp16, TensorRole::kTemporary);
  }
  QuantisedTensor packed;
  packed.scales =
      eager.empty({quantisation_groups(elements)}, DType::kFp32, TensorRole::kCommunication);
  packed.values = eager.empty({elements}, DType::kInt8, TensorRole::kCommunication);
  torch::launch_kernels(eager, torch::bytes_of(input) + torch::bytes_of(packed.values), 1);
  return packed;
}

Tensor dequantise(torch::Eager& eager, const QuantisedTensor& packed) {
  Tensor output = eager.empty({packed.values.elements()}, DType::kFp16, TensorRole::kCommunication);
  torch::launch_kernels(eager, torch::bytes_of(output) + torch::bytes_of(packed.values), 1);
  return output;
}

/// The output of a kernel: scales, then 4-bit integers, two to a byte.
QuantisedTensor QuantisedExchange::packed(std::int64_t bytes, std::int64_t groups) {
  QuantisedTensor made;
  made.scales = eager_.empty({groups}, DType::kFp32, TensorRole::kCommunication);
  made.values = eager_.empty({bytes}, DType::kInt8, TensorRole::kCommunication);
  torch::launch_kernels(eager_, torch::bytes_of(made.values), 1);
  return made;
}

/// Two all-to-alls, into tensors of the size of what is sent.
void QuantisedExchange::receive(QuantisedTensor& received, const QuantisedTensor& sent,
                                const RankGroup& group) {
  received.values = eager_.empty(sent.values.shape(), DType::kInt8, TensorRole::kCommunication);
  received.scales = eager_.empty(sent.scales.shape(), DType::kFp32, TensorRole::kCommunication);
  for (const Tensor& tensor : {received.values, received.scales}) {
    eager_.run(CollectiveShape{
        .kind = CollectiveKind::kAllToAll, .bytes = torch::bytes_of(tensor), .group = group});
  }
}

/// Averages over the nodes. Python's `sum` starts with 0, so that the first part is added, too.
Tensor QuantisedExchange::mean_of_nodes(std::int64_t elements) {
  Tensor sum;
  for (std::int64_t node = 0; node < nodes_; ++node) {
    sum = torch::computed(eager_, {elements}, DType::kFp16, TensorRole::kGradient);
  }
  return torch::computed(eager_, {elements}, DType::kFp16, TensorRole::kGradient);
}

Tensor QuantisedExchange::reduce(const torch::Shape& shape) {
  const std::int64_t elements = shape.elements();
  const std::int64_t groups = std::max({shape[0], shape[1], ranks_});
  const std::int64_t node_groups = groups / devices_;
  sent_ = packed(elements / 2, groups);
  receive(received_, sent_, {.size = devices_});
  node_sum_ = packed(elements / 2 / devices_, node_groups);
  receive(node_sums_, node_sum_, {.size = nodes_, .stride = devices_});
  final_ = eager_.empty({elements / devices_}, DType::kFp16, TensorRole::kGradient);
  torch::launch_kernels(eager_, torch::bytes_of(final_) + torch::bytes_of(node_sums_.values), 1);
  return mean_of_nodes(elements / ranks_);
}

}  // namespace headroom::ir::deepspeed
