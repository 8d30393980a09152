#pragma once

#include <cstdint>

#include "runtimes/megatron/transformer_engine.h"

/// Shared by Transformer Engine's linear layers, whatever type they multiply in.
namespace headroom::ir::megatron {

/// The dims of a product of `rows` rows with a weight: forward, the gradient of the rows, that of
/// the weight.
[[nodiscard]] GemmShape forward_dims(std::int64_t rows, const torch::Shape& weight, DType dtype);
[[nodiscard]] GemmShape backward_dims(std::int64_t rows, const torch::Shape& weight, DType dtype);

/// general_gemm without an output of its own, and with one: [m, n] in the type of the activations.
/// Source: transformer_engine/pytorch/cpp_extensions/gemm.py.
void run_gemm(const Runner& run, const GemmShape& dims);
[[nodiscard]] torch::Tensor gemm(const Runner& run, const GemmShape& dims);
/// The same into a `shared_buffer`.
[[nodiscard]] torch::Tensor shared_gemm(const Runner& run, const GemmShape& dims);

/// A collective of the tensor-parallel ranks over `whole`.
void communicate(const Runner& run, CollectiveKind kind, const torch::Tensor& whole);
/// The same beside the product that comes next (--tp-comm-overlap), else at once.
///
/// Model:   in parts: what a rank has goes round the ring, and the product takes each rank's rows
///          when they have come; in bulk: one collective, over when the product is.
/// Ignores: userbuffers' own kernels; they move bytes as NCCL's do.
/// Source:  transformer_engine/pytorch/module/base.py, initialize_ub, get_default_config;
///          common/comm_gemm_overlap/comm_gemm_overlap.cpp.
enum class Beside : std::uint8_t { kInParts, kInBulk };
void communicate(const Runner& run, CollectiveKind kind, const torch::Tensor& whole, Beside beside);
/// What all ranks' parts are gathered in, or a product writes whose rows are summed over the ranks:
/// of userbuffers under --tp-comm-overlap, which the allocator knows nothing of.
[[nodiscard]] torch::Tensor shared_buffer(const Runner& run, const torch::Shape& shape,
                                          DType dtype);
/// gather_along_first_dim and reduce_scatter_along_first_dim, at once or beside the next product.
[[nodiscard]] torch::Tensor gather(const Runner& run, const torch::Tensor& part);
[[nodiscard]] torch::Tensor gather(const Runner& run, const torch::Tensor& part, Beside beside);
[[nodiscard]] torch::Tensor scatter(const Runner& run, const torch::Tensor& whole);
[[nodiscard]] torch::Tensor scatter(const Runner& run, const torch::Tensor& whole, Beside beside);
/// A product whose rows are summed over the ranks and scattered, in bands under
/// --tp-comm-overlap: the last band's scatter runs beside nothing.
[[nodiscard]] torch::Tensor gemm_and_scatter(const Runner& run, const GemmShape& dims);

/// clear_tensor_data: the memory goes, whoever still holds the tensor.
void clear(const Runner& run, const torch::Tensor& tensor);

/// The gradient of a weight: added to the gradient buffer inside its product, or a tensor.
struct WeightGradient {
  torch::Tensor weight;
  torch::Tensor bias;
};

/// `bias`: summed by the product's epilogue, in the type that the product writes.
[[nodiscard]] WeightGradient weight_gradient(const Runner& run, const GemmShape& dims, bool bias);
/// The product that `weight_gradient` runs.
[[nodiscard]] GemmShape weight_dims(std::int64_t rows, const torch::Shape& weight, DType dtype);
/// What autograd is handed for it.
[[nodiscard]] torch::Tensor finish_weight(const Runner& run, torch::Tensor gradient,
                                          const torch::Shape& weight);

}  // namespace headroom::ir::megatron
