#pragma once

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

/// Megatron-Core's own modules: all layers with --transformer-impl local, and always the output
/// layer.
namespace headroom::ir::megatron {

/// ColumnParallelLinear: [T, in] to [T, out/TP]; under sequence parallelism the input is gathered
/// in the buffer that the process keeps. `linear.bias` is added where there is one.
/// Source: tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication.
[[nodiscard]] torch::Tensor column_linear(const Runner& run, const torch::Tensor& input,
                                          const LinearWeights& linear, TensorRole role);
/// RowParallelLinear without its bias: products summed over the ranks, or scattered.
/// Source: the same; tensor_parallel/mappings.py.
[[nodiscard]] torch::Tensor row_linear(const Runner& run, const torch::Tensor& input,
                                       const torch::Tensor& weight);
/// The same of an expert's tokens, which nobody shares.
[[nodiscard]] torch::Tensor own_linear(const Runner& run, const torch::Tensor& input,
                                       const torch::Tensor& weight);
/// FusedLayerNorm: apex's kernels, the persistent one where it serves the width.
/// Source: fusions/fused_layer_norm.py; NVIDIA/apex csrc/layer_norm_cuda_kernel.cu and
/// contrib/csrc/layer_norm/ln_api.cpp.
[[nodiscard]] torch::Tensor apex_norm(const Runner& run, const torch::Tensor& input,
                                      const NormWeights& weights);

}  // namespace headroom::ir::megatron
