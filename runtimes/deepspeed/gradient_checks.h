#pragma once

#include <cstdint>
#include <span>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// What DeepSpeed's optimizers compute before a step: overflow, norms and the clipping factor. Each
/// function allocates and frees what its namesake does; here no norm is ever invalid.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/utils.py.
namespace headroom::ir::deepspeed {

/// `has_inf_or_nan`: tests the least and the greatest element; returns a flag on the device.
[[nodiscard]] torch::Tensor has_inf_or_nan(torch::Eager& eager, const torch::Tensor& tensor);

/// A norm, sum or extreme of all elements. It is computed and returned in `dtype`.
[[nodiscard]] torch::Tensor reduce_all(torch::Eager& eager, const torch::Tensor& tensor,
                                       DType dtype);

/// `get_grad_norm_direct`: takes one gradient's norm after the other in fp64; sums over `ranks`
/// ranks.
[[nodiscard]] torch::Tensor direct_norm(torch::Eager& eager,
                                        std::span<const torch::Tensor> gradients,
                                        std::int64_t ranks);

/// `combine_grad_norm_groups`: combines the norms of the parameter groups into one.
[[nodiscard]] torch::Tensor combined_norm(torch::Eager& eager,
                                          std::span<const torch::Tensor> norms);

/// `is_invalid_grad_norm` for a norm on the device.
void check_norm(torch::Eager& eager, const torch::Tensor& norm);

/// `mask_nan_or_inf_with_val_inplace`.
void mask_invalid(torch::Eager& eager, const torch::Tensor& norm);

/// `unscale_and_clip_grads`: computes the factor from the norm with scalars on the device.
void make_clip_factor(torch::Eager& eager, const torch::Tensor& norm);

}  // namespace headroom::ir::deepspeed
