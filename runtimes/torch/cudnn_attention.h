#pragma once

#include "runtimes/torch/functions.h"

namespace headroom::ir::torch {

/// Whether PyTorch prefers cuDNN's attention for these inputs: 16-bit types on compute capability
/// 9.0 and 10.x, heads of a multiple of 8 up to 128 (to 256 on 9.0), or 192 with values of 128; no
/// mask that requires a gradient. A cuDNN newer than 9.15 is assumed, as in the wheels for CUDA 13.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/transformers/cuda/sdp_utils.cpp,
/// check_prefer_cudnn_attention, check_cudnn_tensor_shapes.
[[nodiscard]] bool prefers_cudnn(const Eager& eager, const Tensor& query, const Tensor& key,
                                 const Tensor& value, const SdpaOptions& options);

/// cuDNN's attention of q [B, A, S, D], k [B, K, S', D] and v [B, K, S', V] to [B, A, S, V].
///
/// Model:   forward keeps the output, the log-sum-exp of each row in fp32, seed and offset, and has
///          a workspace of 256 bytes. The workspace of backward has: the queries' gradient and its
///          row sums in fp32, and, if heads share keys, the gradients of each head's keys and
///          values in 16 bits, together 4 B A S (D + 1) + 2 B A S' (D + V) + 256 bytes.
/// Source:  pytorch/pytorch 2.11 aten/src/ATen/native/cudnn/MHA.cpp; workspaces as cuDNN 9.19 asked
///          for them on an H100, of 22 shapes to the byte.
[[nodiscard]] Tensor cudnn_attention(Eager& eager, const Tensor& query, const Tensor& key,
                                     const Tensor& value, const SdpaOptions& options);

}  // namespace headroom::ir::torch
