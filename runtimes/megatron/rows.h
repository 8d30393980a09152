#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// torch.split by rows: the results are views. Backward concatenates their gradients in one tensor.
[[nodiscard]] std::vector<torch::Tensor> split_rows(torch::Eager& eager, const torch::Tensor& input,
                                                    const std::vector<std::int64_t>& rows);
/// torch.cat by rows. Gradients are views of the incoming one.
[[nodiscard]] torch::Tensor join_rows(torch::Eager& eager, const std::vector<torch::Tensor>& parts);

}  // namespace headroom::ir::megatron
