#pragma once

#include <cstdint>

#include "runtimes/megatron/transformer_engine.h"

/// Functions that Transformer Engine's linear layers share for all types.
namespace headroom::ir::megatron {

/// Dimensions of a product of `rows` rows with a weight: forward, and the gradients of the rows and
/// of the weight.
[[nodiscard]] GemmShape forward_dims(std::int64_t rows, const torch::Shape& weight, DType dtype);
[[nodiscard]] GemmShape backward_dims(std::int64_t rows, const torch::Shape& weight, DType dtype);

/// general_gemm, without and with an output tensor: [m, n] in the type of the activations.
/// Source: transformer_engine/pytorch/cpp_extensions/gemm.py.
void run_gemm(const Runner& run, const GemmShape& dims);
[[nodiscard]] torch::Tensor gemm(const Runner& run, const GemmShape& dims);
/// The same into a `shared_buffer`.
[[nodiscard]] torch::Tensor shared_gemm(const Runner& run, const GemmShape& dims);

/// Runs a collective of the tensor-parallel ranks on `whole`.
void communicate(const Runner& run, CollectiveKind kind, const torch::Tensor& whole);
/// The same, overlapped with the next product under --tp-comm-overlap, and at once otherwise.
///
/// Model:   in parts: each rank's part travels around the ring, and the product processes each
///          rank's rows once they have arrived. In bulk: one collective, which must be over when
///          the product is.
/// Ignores: userbuffers' own kernels; they are modelled as moving bytes like NCCL's.
/// Source:  transformer_engine/pytorch/module/base.py, initialize_ub, get_default_config;
///          common/comm_gemm_overlap/comm_gemm_overlap.cpp.
enum class Beside : std::uint8_t { kInParts, kInBulk };
void communicate(const Runner& run, CollectiveKind kind, const torch::Tensor& whole, Beside beside);
/// The tensor in which all ranks' parts are gathered, or to which a product writes rows that are
/// then summed over the ranks. Under --tp-comm-overlap it is in userbuffers, outside the allocator.
[[nodiscard]] torch::Tensor shared_buffer(const Runner& run, const torch::Shape& shape,
                                          DType dtype);
/// gather_along_first_dim and reduce_scatter_along_first_dim, at once or overlapped with the next
/// product.
[[nodiscard]] torch::Tensor gather(const Runner& run, const torch::Tensor& part);
[[nodiscard]] torch::Tensor gather(const Runner& run, const torch::Tensor& part, Beside beside);
[[nodiscard]] torch::Tensor scatter(const Runner& run, const torch::Tensor& whole);
[[nodiscard]] torch::Tensor scatter(const Runner& run, const torch::Tensor& whole, Beside beside);
/// A product followed by a reduce-scatter of its rows. Under --tp-comm-overlap it is split into
/// `kScatterBands` bands; nothing overlaps the reduce-scatter of the last band.
inline constexpr std::int64_t kScatterBands = 4;  ///< num_splits
[[nodiscard]] torch::Tensor gemm_and_scatter(const Runner& run, const GemmShape& dims);

/// clear_tensor_data: frees the memory even if others still hold the tensor.
void clear(const Runner& run, const torch::Tensor& tensor);

/// The gradient of a weight: accumulated in the gradient buffer by its product, or a new tensor.
struct WeightGradient {
  torch::Tensor weight;
  torch::Tensor bias;
};

/// `bias`: the epilogue of the product sums the bias's gradient, in the type that the product
/// writes.
[[nodiscard]] WeightGradient weight_gradient(const Runner& run, const GemmShape& dims, bool bias);
/// The product that `weight_gradient` runs.
[[nodiscard]] GemmShape weight_dims(std::int64_t rows, const torch::Shape& weight, DType dtype);
/// What is returned to autograd for a weight's gradient.
[[nodiscard]] torch::Tensor finish_weight(const Runner& run, torch::Tensor gradient,
                                          const torch::Shape& weight);

}  // namespace headroom::ir::megatron
