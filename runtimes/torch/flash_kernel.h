#pragma once

#include <cstdint>

#include "model_ir/plan/device_work.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

inline constexpr std::int64_t kFlashAlignment = 8;  ///< Head sizes must be multiples of this.

/// The caller of the FlashAttention-2 kernels: PyTorch's copy stores seed and offset of the random
/// state in two tensors, the package flash-attn in one.
enum class FlashMaker : std::uint8_t { kTorch, kPackage };

/// What the backward of flash attention reads: all [B, A, S, D].
struct FlashInputs {
  Tensor gradient;  ///< Gradient of the output.
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

/// Heads [B, A, S, D] with the memory layout `layout`.
[[nodiscard]] Tensor heads_like(Eager& eager, const Shape& shape, DType dtype,
                                Layout layout = Layout::kSwapped);
/// The kernel's shape.
[[nodiscard]] AttentionShape flash_shape(const Tensor& q, const Tensor& k, const Tensor& v,
                                         bool causal);
/// The kernel itself (mha_fwd), for head sizes that are multiples of 8. `dropout` is the
/// probability.
[[nodiscard]] FlashOutputs run_flash(Eager& eager, const Tensor& q, const AttentionShape& kernel,
                                     double dropout, FlashMaker maker);

/// empty_like of queries, keys and values.
[[nodiscard]] FlashGradients empty_gradients(Eager& eager, const FlashInputs& inputs);
/// The backward kernel (mha_bwd). Sequences are rounded up to 128, head sizes to 32 (to 64 above
/// 128).
void run_flash_backward(Eager& eager, const FlashInputs& inputs, const FlashGradients& made,
                        AttentionShape kernel);
/// Backward as PyTorch calls it: gradient and output are copied unless they are contiguous as [B,
/// S, A, D].
[[nodiscard]] FlashGradients flash_backward(Eager& eager, const FlashInputs& inputs,
                                            AttentionShape kernel);

}  // namespace headroom::ir::torch
