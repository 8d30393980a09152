#pragma once

#include <cstdint>
#include <span>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// What DeepSpeed's optimizers look at before a step: overflow, norms, the factor of clipping. Each
/// function allocates and frees what its namesake does; no norm is ever invalid here.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/utils.py.
namespace headroom::ir::deepspeed {

/// `has_inf_or_nan`: the least and the greatest element, tested; a flag on the device.
[[nodiscard]] torch::Tensor has_inf_or_nan(torch::Eager& eager, const torch::Tensor& tensor);

/// A norm, sum or extreme of all elements, kept in `dtype` and of that type.
[[nodiscard]] torch::Tensor reduce_all(torch::Eager& eager, const torch::Tensor& tensor,
                                       DType dtype);

/// `get_grad_norm_direct`: norms in fp64, one gradient after the other, summed over `ranks` ranks.
[[nodiscard]] torch::Tensor direct_norm(torch::Eager& eager,
                                        std::span<const torch::Tensor> gradients,
                                        std::int64_t ranks);

/// `combine_grad_norm_groups`: one norm of those of the parameter groups.
[[nodiscard]] torch::Tensor combined_norm(torch::Eager& eager,
                                          std::span<const torch::Tensor> norms);

/// `is_invalid_grad_norm` of a norm on the device.
void check_norm(torch::Eager& eager, const torch::Tensor& norm);

/// `mask_nan_or_inf_with_val_inplace`.
void mask_invalid(torch::Eager& eager, const torch::Tensor& norm);

/// `unscale_and_clip_grads`: the factor is made of the norm by scalars on the device.
void make_clip_factor(torch::Eager& eager, const torch::Tensor& norm);

}  // namespace headroom::ir::deepspeed
