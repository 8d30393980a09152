#pragma once

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

/// Megatron-Core's own modules: all layers with --transformer-impl local, and always the output
/// layer.
namespace headroom::ir::megatron {

/// ColumnParallelLinear: [T, in] to [T, out/TP]. Under sequence parallelism the input is gathered
/// in the process's global buffer. `linear.bias` is added if it exists.
/// Source: tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication.
[[nodiscard]] torch::Tensor column_linear(const Runner& run, const torch::Tensor& input,
                                          const LinearWeights& linear, TensorRole role);
/// RowParallelLinear without its bias: the products are all-reduced or reduce-scattered over the
/// ranks.
/// Source: the same; tensor_parallel/mappings.py.
[[nodiscard]] torch::Tensor row_linear(const Runner& run, const torch::Tensor& input,
                                       const torch::Tensor& weight);
/// The same for an expert's tokens, which no other rank shares.
[[nodiscard]] torch::Tensor own_linear(const Runner& run, const torch::Tensor& input,
                                       const torch::Tensor& weight);
/// FusedLayerNorm with apex's kernels: the persistent kernel if it supports the width.
/// Source: fusions/fused_layer_norm.py; NVIDIA/apex csrc/layer_norm_cuda_kernel.cu and
///         contrib/csrc/layer_norm/ln_api.cpp.
[[nodiscard]] torch::Tensor apex_norm(const Runner& run, const torch::Tensor& input,
                                      const NormWeights& weights);

}  // namespace headroom::ir::megatron
