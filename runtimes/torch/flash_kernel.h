#pragma once

#include <cstdint>

#include "model_ir/plan/device_work.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

inline constexpr std::int64_t kFlashAlignment = 8;  ///< Of the sizes of heads that kernels take.

/// Who calls the kernels of FlashAttention 2: PyTorch's copy keeps seed and offset of the random
/// state as two tensors, the package flash-attn as one.
enum class FlashMaker : std::uint8_t { kTorch, kPackage };

/// What the backward of flash attention reads: all [B, A, S, D].
struct FlashInputs {
  Tensor gradient;  ///< Of the output.
  Tensor query;
  Tensor key;
  Tensor value;
  Tensor output;
};
struct FlashGradients {
  Tensor query;
  Tensor key;
  Tensor value;
};

/// Heads [B, A, S, D] that lie in memory as `layout` says.
[[nodiscard]] Tensor heads_like(Eager& eager, const Shape& shape, DType dtype,
                                Layout layout = Layout::kSwapped);
/// The kernel's shape.
[[nodiscard]] AttentionShape flash_shape(const Tensor& q, const Tensor& k, const Tensor& v,
                                         bool causal);
/// The kernel itself, of heads of a multiple of 8: mha_fwd. `dropout` is the probability.
[[nodiscard]] FlashOutputs run_flash(Eager& eager, const Tensor& q, const AttentionShape& kernel,
                                     double dropout, FlashMaker maker);

/// empty_like of queries, keys and values.
[[nodiscard]] FlashGradients empty_gradients(Eager& eager, const FlashInputs& inputs);
/// The backward kernel: mha_bwd. Sequences are rounded to 128, heads to 32 (to 64 above 128).
void run_flash_backward(Eager& eager, const FlashInputs& inputs, const FlashGradients& made,
                        AttentionShape kernel);
/// Backward as PyTorch calls it: gradient and output are copied where they are not contiguous as
/// [B, S, A, D].
[[nodiscard]] FlashGradients flash_backward(Eager& eager, const FlashInputs& inputs,
                                            AttentionShape kernel);

}  // namespace headroom::ir::torch
