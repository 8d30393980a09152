#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Operators as eager PyTorch runs them. Each allocates, saves and frees in ATen's order. What an
/// operator saves and what its backward allocates follows tools/autograd/derivatives.yaml. Shape
/// letters: model_ir/spec/model_spec.h.
namespace headroom::ir::torch {

// --- views and copies (functions_view.cpp) ------------------------------------------------------

/// A view of another shape with as many elements; its gradient is a view as well.
[[nodiscard]] Tensor view(Eager& eager, const Tensor& input, const Shape& shape);
/// [B, S, A*D] -> [B, A, S, D] without a copy: view and transpose.
[[nodiscard]] Tensor split_heads(Eager& eager, const Tensor& input, std::int64_t heads);
/// [B, S, A, D] -> [B, A, S, D] without a copy: transpose(1, 2).
[[nodiscard]] Tensor transpose_heads(Eager& eager, const Tensor& input);
/// [B, A, S, D] -> [B, S, A*D]: transpose and reshape, which copies unless the memory order is [B,
/// S, A, D].
[[nodiscard]] Tensor merge_heads(Eager& eager, const Tensor& input);
/// Part of the last dim. Backward fills a zero tensor of the whole shape (slice_backward).
[[nodiscard]] Tensor slice_last(Eager& eager, const Tensor& input, std::int64_t size);
/// One token of each sequence: [B, S, X] -> [B, X], a view. Backward is that of `slice_last`.
[[nodiscard]] Tensor select_token(Eager& eager, const Tensor& input);
/// Parts of the last dim as one operator (split): backward concatenates the gradients.
[[nodiscard]] std::vector<Tensor> split_last(Eager& eager, const Tensor& input,
                                             std::span<const std::int64_t> sizes);
/// Queries, keys and values [B, A, S, D] of a fused output [B, S, A*3*D], as views. `kSelected` has
/// one backward for each of them, `kChunked` one for all.
enum class FusedHeads : std::uint8_t { kSelected, kChunked };
[[nodiscard]] std::vector<Tensor> split_fused_heads(Eager& eager, const Tensor& input,
                                                    std::int64_t head_dim, FusedHeads form);
/// Queries as a view of all heads but two; the single heads of keys and values by index, which
/// copies: [B, S, (A+2)*D] -> q [B, A, S, D], k and v [B, 1, S, D].
[[nodiscard]] std::vector<Tensor> split_multi_query(Eager& eager, const Tensor& input,
                                                    std::int64_t head_dim);
/// Two halves of the last dim (chunk(2)).
[[nodiscard]] std::pair<Tensor, Tensor> chunk_last(Eager& eager, const Tensor& input);
/// A function that returns its input: a new node on the same memory.
[[nodiscard]] Tensor handed_on(Eager& eager, const Tensor& input);
/// A contiguous copy of the tensor.
[[nodiscard]] Tensor clone(Eager& eager, const Tensor& input);
/// `input.contiguous()`: `input` itself if it is contiguous, otherwise a copy.
[[nodiscard]] Tensor contiguous(Eager& eager, const Tensor& input);
/// The tensor in another type; the same tensor if the type is equal.
[[nodiscard]] Tensor to(Eager& eager, const Tensor& input, DType dtype);
/// Concatenation along the last dim; backward hands out views.
[[nodiscard]] Tensor cat_last(Eager& eager, const Tensor& first, const Tensor& second);
/// `input.detach()`.
[[nodiscard]] Tensor detach(Eager& eager, const Tensor& input);
/// `tensor.detach_()`: the tensor releases its graph.
void detach_in_place(const Tensor& tensor);
/// K heads repeated to A: [B, K, S, D] -> [B, A, S, D], a copy unless K is 1 (transformers'
/// repeat_kv: expand and reshape).
[[nodiscard]] Tensor repeat_heads(Eager& eager, const Tensor& input, std::int64_t times);

// --- arithmetic, elementwise (functions_elementwise.cpp) ----------------------------------------

[[nodiscard]] Tensor add(Eager& eager, const Tensor& a, const Tensor& b);
/// `target += other`: a new tensor on the same storage.
[[nodiscard]] Tensor add_in_place(Eager& eager, const Tensor& target, const Tensor& other);
[[nodiscard]] Tensor sub(Eager& eager, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(Eager& eager, const Tensor& a, const Tensor& b);
/// `input / divisor` without a gradient of the divisor; `input` is not saved.
/// Source: derivatives.yaml, div.Tensor.
[[nodiscard]] Tensor divide_by_constant(Eager& eager, const Tensor& input, const Tensor& divisor);
[[nodiscard]] Tensor scale(Eager& eager, const Tensor& input);  ///< Times or over a number.
/// `input /= number`: a new tensor on the same storage.
[[nodiscard]] Tensor scale_in_place(Eager& eager, const Tensor& input);
[[nodiscard]] Tensor shift(Eager& eager, const Tensor& input);  ///< Plus a number.
[[nodiscard]] Tensor negate(Eager& eager, const Tensor& input);
[[nodiscard]] Tensor square(Eager& eager, const Tensor& input);  ///< pow(2)
[[nodiscard]] Tensor cube(Eager& eager, const Tensor& input);    ///< pow(3.0)
[[nodiscard]] Tensor rsqrt(Eager& eager, const Tensor& input);
[[nodiscard]] Tensor tanh(Eager& eager, const Tensor& input);
[[nodiscard]] Tensor sigmoid(Eager& eager, const Tensor& input);
[[nodiscard]] Tensor silu(Eager& eager, const Tensor& input);
[[nodiscard]] Tensor gelu(Eager& eager, const Tensor& input);  ///< The erf and tanh forms alike.
[[nodiscard]] Tensor relu(Eager& eager, const Tensor& input);
/// native_dropout: saves a bool mask. Returns the input itself if p = 0 or in evaluation.
[[nodiscard]] Tensor dropout(Eager& eager, const Tensor& input, double probability);
/// Adds a constant mask that may be narrower (broadcast).
[[nodiscard]] Tensor add_constant(Eager& eager, const Tensor& input, const Tensor& constant);

// --- reductions and normalisation (functions_norm.cpp) ------------------------------------------

[[nodiscard]] Tensor mean_last(Eager& eager, const Tensor& input);
[[nodiscard]] Tensor layer_norm(Eager& eager, const Tensor& input, const Tensor& weight,
                                const Tensor& bias);
/// torch.nn.functional.rms_norm: one kernel, which saves its input, the weight and 1/rms.
/// Source: derivatives.yaml, _fused_rms_norm.
[[nodiscard]] Tensor rms_norm(Eager& eager, const Tensor& input, const Tensor& weight);
/// The same before PyTorch 2.9: separate operators on an fp32 copy.
/// Source: pytorch 2.6, aten/src/ATen/native/layer_norm.cpp, rms_norm_symint.
[[nodiscard]] Tensor rms_norm_composed(Eager& eager, const Tensor& input, const Tensor& weight);
/// Softmax over the last dim, computed and returned in `dtype`.
[[nodiscard]] Tensor softmax_last(Eager& eager, const Tensor& input, DType dtype);

// --- matrices (functions_matmul.cpp) ------------------------------------------------------------

/// F.linear. `weight` is [out, in]; `bias` may be undefined. Autocast casts both.
[[nodiscard]] Tensor linear(Eager& eager, const Tensor& input, const Tensor& weight,
                            const Tensor& bias);
/// F.linear without bias whose result `product` already exists: only the graph is made.
[[nodiscard]] Tensor linear_of(Eager& eager, const Tensor& input, const Tensor& weight,
                               const Tensor& product);
/// `input @ weight.T`: saves the transposed view and thereby the weight's current memory.
[[nodiscard]] Tensor matmul_transposed(Eager& eager, const Tensor& input, const Tensor& weight);
/// GPT-2's Conv1D: addmm with a weight [in, out].
[[nodiscard]] Tensor conv1d(Eager& eager, const Tensor& input, const Tensor& weight,
                            const Tensor& bias);
/// torch.matmul of [.., M, K] and [.., K, N], batched over the leading dims. A single head of the
/// second factor is broadcast to the heads of the first.
[[nodiscard]] Tensor batched_matmul(Eager& eager, const Tensor& a, const Tensor& b,
                                    const Shape& output);
/// bias.baddbmm: the product of queries [B, A, S, D] and keys, scaled, added to a bias without
/// gradient: [B, A, S, S].
[[nodiscard]] Tensor biased_scores(Eager& eager, const Tensor& bias, const Tensor& q,
                                   const Tensor& k);
/// The argument of a matrix product under autocast: the tensor itself, a cached copy or a cast.
[[nodiscard]] Tensor autocast_argument(Eager& eager, const Tensor& input);

// --- attention (functions_attention.cpp) --------------------------------------------------------

struct SdpaOptions {
  double dropout = 0;
  bool causal = true;
  /// Boolean [1, 1, S, S], expanded to the batch, or additive [B, 1, S, S].
  std::optional<Tensor> mask;
  bool broadcast = false;  ///< One key head without enable_gqa: matmul broadcasts it.
  bool cudnn = false;      ///< Allows cuDNN's kernel, if the device and the inputs support it.
};

/// scaled_dot_product_attention of q [B, A, S, D], k and v [B, K, S', D].
[[nodiscard]] Tensor sdpa(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
                          const SdpaOptions& options);

/// The results of a flash attention call.
struct FlashOutputs {
  Tensor output;
  Tensor log_sum;
  Tensor seed;
  Tensor offset;
};
/// Causal flash attention of 16-bit inputs. If `outputs` is already defined, only the graph is
/// made; otherwise the results are stored there.
[[nodiscard]] Tensor flash_attention(Eager& eager, const Tensor& q, const Tensor& k,
                                     const Tensor& v, FlashOutputs& outputs);

// --- tables (functions_embedding.cpp) -----------------------------------------------------------

/// Rows of `weight` [V, H] by `ids` [B, S]. Backward makes a dense gradient.
[[nodiscard]] Tensor embedding(Eager& eager, const Tensor& weight, const Tensor& ids);
/// Whether the gradient of a table that was read at `rows` places is summed by sorting them.
[[nodiscard]] bool sorts_embedding_rows(std::int64_t rows);
/// That gradient, of shape `weight`, and the temporaries that making it takes: sort, segment
/// search, partial sums.
/// Source: aten/src/ATen/native/cuda/Embedding.cu, embedding_dense_backward_cuda, and
///         EmbeddingBackwardKernel.cu, embedding_backward_cuda_kernel.
[[nodiscard]] Tensor sorted_embedding_gradient(Eager& eager, std::int64_t rows, const Shape& weight,
                                               DType dtype);
/// [S, S', A] -> [1, A, S, S'] without a copy: permute and unsqueeze.
[[nodiscard]] Tensor heads_first(Eager& eager, const Tensor& input);

// --- losses (functions_loss.cpp) ----------------------------------------------------------------

[[nodiscard]] Tensor log_softmax(Eager& eager, const Tensor& input, DType dtype);
/// Mean negative log likelihood; keeps the labels and the total weight.
[[nodiscard]] Tensor nll_loss(Eager& eager, const Tensor& log_probabilities, const Tensor& labels);
/// torch.nn.CrossEntropyLoss. log_softmax keeps the type of the logits even under autocast;
/// nll_loss then runs in fp32. Source: pytorch/pytorch aten/src/ATen/native/LossNLL.cpp,
/// cross_entropy_loss, and
///         aten/src/ATen/autocast_mode.h.
[[nodiscard]] Tensor cross_entropy(Eager& eager, const Tensor& logits, const Tensor& labels);
/// torch.nn.MSELoss: the mean of squared differences, which autocast computes in fp32.
/// Source: aten/src/ATen/native/cuda/BinaryMiscOpsKernels.cu and Loss.cpp, mse_loss.
[[nodiscard]] Tensor mse_loss(Eager& eager, const Tensor& values, const Tensor& labels);

}  // namespace headroom::ir::torch
