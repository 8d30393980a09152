#pragma once

#include "model_ir/plan/device_work.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/torch/tensor.h"

namespace headroom::ir::torch {

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

/// Backward of flash attention 2. Gradient and output are copied where they are not contiguous as
/// [B, S, A, D].
/// Source: pytorch/pytorch aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp,
/// mha_bwd: sequence rounded to 128, head size to 32 (to 64 above 128).
[[nodiscard]] FlashGradients flash_backward(Eager& eager, const FlashInputs& inputs,
                                            AttentionShape kernel);
/// The kernel's shape.
[[nodiscard]] AttentionShape flash_shape(const Tensor& q, const Tensor& k, const Tensor& v,
                                         bool causal);

}  // namespace headroom::ir::torch
