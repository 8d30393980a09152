#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// How scaled_dot_product_attention converts its mask.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/transformers/attention.cpp.
namespace headroom::ir::torch {

/// A boolean mask converted to an additive one for the batch (convert_boolean_attn_mask); other
/// masks unchanged.
[[nodiscard]] Tensor additive(Eager& eager, const Tensor& mask, std::int64_t batch, DType dtype);

/// The mask with rows of a multiple of 8 elements, which the kernel needs (pad_bias).
[[nodiscard]] Tensor aligned(Eager& eager, const Tensor& mask);

/// One mask, expanded to every sequence of the batch (preprocess_mask).
[[nodiscard]] Tensor expanded(Eager& eager, const Tensor& mask, std::int64_t batch);

/// ones(S, S').tril() as an additive mask of `dtype`.
[[nodiscard]] Tensor causal_bias(Eager& eager, std::int64_t queries, std::int64_t keys,
                                 DType dtype);

/// where(allowed, bias, lowest): the bias of relative positions [1, A, S, S'] where the boolean
/// mask [1, 1, S, S'] allows it. Backward saves the mask.
[[nodiscard]] Tensor masked_bias(Eager& eager, const Tensor& allowed, const Tensor& bias);

}  // namespace headroom::ir::torch
