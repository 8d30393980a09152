#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Operators of multi-head latent attention and of attention sinks. Shape letters: B batch, A
/// heads, S sequence, D head size.
namespace headroom::ir::torch {

/// One head viewed A times, without a copy: [B, 1, S, D] -> [B, A, S, D]; backward sums over heads.
[[nodiscard]] Tensor expand_heads(Eager& eager, const Tensor& input, std::int64_t heads);

/// A new tensor whose last dim contains `first`, then `second`, written by two in-place copies.
/// Source: torch/csrc/autograd/functions/tensor.cpp, CopySlices::apply_impl.
[[nodiscard]] Tensor copy_side_by_side(Eager& eager, const Tensor& first, const Tensor& second);

/// Pairs of the last dim as complex numbers, multiplied by a complex table [1, S, D] (as many bytes
/// as D fp32 numbers per row). `input` is fp32.
[[nodiscard]] Tensor complex_mul(Eager& eager, const Tensor& input, const Tensor& table);

/// cat of scores [B, A, S, S'] with a logit per head [A], expanded to a further column.
[[nodiscard]] Tensor append_sinks(Eager& eager, const Tensor& scores, const Tensor& sinks);

/// max(dim=-1, keepdim=True).values; backward scatters into a zero tensor.
[[nodiscard]] Tensor max_last(Eager& eager, const Tensor& input);

/// Which bounds a clamp has.
enum class ClampBounds { kUpper, kBoth };
[[nodiscard]] Tensor clamp(Eager& eager, const Tensor& input, ClampBounds bounds);

}  // namespace headroom::ir::torch
