#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// torch.split by rows: views, whose gradients are joined in one tensor.
[[nodiscard]] std::vector<torch::Tensor> split_rows(torch::Eager& eager, const torch::Tensor& input,
                                                    const std::vector<std::int64_t>& rows);
/// torch.cat by rows: the gradients are views of what comes.
[[nodiscard]] torch::Tensor join_rows(torch::Eager& eager, const std::vector<torch::Tensor>& parts);

}  // namespace headroom::ir::megatron
