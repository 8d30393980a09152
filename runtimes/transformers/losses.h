#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/model.h"

/// Losses of a causal language model: the library's own, and two that never have the logits of all
/// tokens in fp32.
namespace headroom::ir::transformers {

/// ForCausalLMLoss: fp32 logits, shifted labels, mean cross entropy. `logits` is [B, S, V].
/// Source: huggingface/transformers 5.17 loss/loss_utils.py.
[[nodiscard]] torch::Tensor causal_lm_loss(torch::Eager& eager, const torch::Tensor& logits,
                                           const torch::Tensor& ids);
/// The same as transformers computed it until 4.48: with several sequences, the logits of all
/// tokens but the last are copied; `widens`: to fp32.
[[nodiscard]] torch::Tensor shifted_logits_loss(torch::Eager& eager, const torch::Tensor& logits,
                                                const torch::Tensor& ids, bool widens);

/// Inputs of a loss that computes the logits itself: the last hidden states and the output layer.
struct HeadInput {
  torch::Tensor hidden;        ///< [B, S, H]
  torch::Tensor weight;        ///< [V, H]
  torch::Tensor bias;          ///< [V] or undefined.
  std::int64_t pointwise = 0;  ///< Operators on the logits before the loss; they save nothing.
  bool softcap = false;        ///< The logits are bounded by tanh.
  bool compiled = false;       ///< The loss of a piece is compiled.
};

/// The operators of the head of `model`'s graph, between the last hidden states and the loss.
[[nodiscard]] HeadInput head_input(const Model& model, NodeId first, const torch::Tensor& hidden);

/// Liger's fused linear cross entropy: computes the logits of one chunk of tokens at a time and
/// their gradients at once. Only the gradients of the hidden states and of the weight are saved for
/// backward.
///
/// Model:  chunk = next power of two of ceil(T / ceil(V / H)) tokens, at most T = B * S.
/// Source: linkedin/Liger-Kernel 0.8.5 src/liger_kernel/ops/fused_linear_cross_entropy.py and
///         transformers/model/loss_utils.py, LigerForCausalLMLoss; triton backend, compute
///         capability 8.0 and newer.
/// Ignores: a bias of the output layer, which no model that Liger patches has.
[[nodiscard]] torch::Tensor fused_linear_loss(torch::Eager& eager, const HeadInput& head,
                                              const torch::Tensor& ids);

/// Cross entropy of the logits of eight pieces of the sequence, each cast to fp32 separately.
///
/// Model:  eagerly a piece keeps its probabilities in fp32; compiled, what is kept is the logits,
///         and backward writes their gradients at once.
/// Source: pytorch/torchtune 0.6.1 torchtune/modules/loss/ce_chunked_output_loss.py,
///         modules/transformer.py, chunked_output, and training/_compile.py; pytorch/pytorch
///         torch/_inductor (pointwise kernels are fused).
[[nodiscard]] torch::Tensor chunked_loss(torch::Eager& eager, const HeadInput& head,
                                         const torch::Tensor& ids);

}  // namespace headroom::ir::transformers
