#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model_ir/graph/tensor.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// Operators of a transformer at the level of its modelling code: what every framework must
/// compute, not how. Shape letters as in spec/model_spec.h.
enum class OpKind : std::uint8_t {
  kEmbedding,    ///< ids [B,S] -> [B,S,H]
  kPositions,    ///< adds a learned table: [B,S,H] -> [B,S,H]
  kTokenTypes,   ///< BERT's segment table
  kNorm,         ///< [.., H] -> [.., H]
  kLinear,       ///< [.., in] -> [.., out]
  kSplitQkv,     ///< fused projection -> q, k, v
  kHeadNorm,     ///< q or k per head or over all heads
  kRope,         ///< q, k -> q, k
  kAttention,    ///< q, k, v -> [B,S,A*D]
  kLatentQkv,    ///< MLA: q, compressed kv, rope part -> q, k, v
  kActivation,   ///< elementwise
  kSplitGateUp,  ///< fused gate and up -> gate, up
  kMultiply,     ///< elementwise product
  kAdd,          ///< residual addition
  kScale,        ///< times a constant
  kDropout,
  kRouter,        ///< [T,H] -> weights and indices of the chosen experts
  kExperts,       ///< [T,H], weights, indices -> [T,H]
  kSharedGate,    ///< sigmoid gate of a shared expert
  kSoftcap,       ///< cap * tanh(x / cap)
  kPool,          ///< one token of each sequence: [B,S,X] -> [B,X]
  kCrossEntropy,  ///< logits [B,S,V] or [B,V], labels -> loss
  kSquaredError,  ///< The loss of a regression: values [B,1], labels -> loss
};
[[nodiscard]] std::string_view name_of(OpKind kind);

/// Whether `kind` computes the number that training minimises.
[[nodiscard]] constexpr bool is_loss(OpKind kind) {
  return kind == OpKind::kCrossEntropy || kind == OpKind::kSquaredError;
}

/// The role of a linear layer or norm, for naming, LoRA targets and fusion by other runtimes.
enum class OpRole : std::uint8_t {
  kNone,
  kQuery,
  kKey,
  kValue,
  kQkv,
  kAttentionOutput,
  kGate,
  kUp,
  kGateUp,
  kDown,
  kRouter,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kLatentQueryDown,
  kLatentQueryUp,
  kLatentKvDown,
  kLatentKvUp,
  kProjectIn,
  kProjectOut,
  kHeadDense,
  kHead,
  kAttentionNorm,
  kMlpNorm,
  kAttentionOutNorm,
  kMlpOutNorm,
  kFinalNorm,
  kEmbeddingNorm,
  kQueryNorm,
  kKeyNorm,
  kLatentQueryNorm,
  kLatentKvNorm,
  kTokenEmbedding,
  kPositionTable,
  kTokenTypeTable,
  kSinks,         ///< gpt-oss: one logit per head.
  kRelativeBias,  ///< T5's table, owned by the first layer of a stack.
  kExpertGateUp,
  kExpertGate,  ///< The gate of one expert, where experts are modules (ExpertWeights::kModules).
  kExpertUp,    ///< Likewise.
  kExpertDown,
  kSharedSigmoid,  ///< Weight of the sigmoid gate on a shared expert.
  kCrossAttentionNorm,
  kHeadDenseNorm,  ///< The norm in BERT's head.
  kPooler,         ///< BERT's pooler of the first token.
  kEncoderFinalNorm,
};
[[nodiscard]] std::string_view name_of(OpRole role);

/// A part of a layer whose local values are all freed when it returns.
enum class Module : std::uint8_t { kNone, kAttention, kMlp, kCrossAttention, kHead };
[[nodiscard]] std::string_view name_of(Module module);

/// How a router turns its logits into the weights of the chosen experts.
enum class RouterForm : std::uint8_t {
  kSoftmaxFp32,      ///< fp32 softmax, the k largest divided by their sum, left fp32 (Mixtral).
  kSoftmax,          ///< The same, but divides only if the model says so, then casts back (Qwen).
  kSoftmaxOfChosen,  ///< The k largest logits, then softmax over those (gpt-oss).
  kWideSoftmax,      ///< fp32 linear and softmax; the k largest, by groups or not (DeepSeek-V2).
  kWideSigmoid,      ///< fp32 linear and sigmoid; by groups, with a correction (DeepSeek-V3).
};

/// How an expert combines the halves of its fused gate and up projection.
enum class ExpertGate : std::uint8_t {
  kHalves,              ///< act(first half) * second half
  kInterleavedClamped,  ///< gpt-oss: even and odd columns, both clamped, (up + 1) * swish(gate).
};

/// Which token represents its sequence.
enum class Pooling : std::uint8_t {
  kFirst,
  kLast,  ///< The last one that is not padding.
};

/// One operator.
struct Op {
  OpKind kind = OpKind::kAdd;
  OpRole role = OpRole::kNone;
  Module module = Module::kNone;
  std::int32_t layer = -1;
  std::vector<TensorId> inputs{};      ///< Activations, in the order of the operator's arguments.
  std::vector<TensorId> parameters{};  ///< Weight, then bias.
  std::vector<TensorId> outputs{};
  NormKind norm = NormKind::kRms;             ///< kNorm, kHeadNorm
  Activation activation = Activation::kSilu;  ///< kActivation
  double probability = 0;                     ///< kDropout, kAttention
  std::optional<std::int64_t> window{};       ///< kAttention
  bool causal = true;                         ///< kAttention
  RouterForm router = RouterForm::kSoftmax;   ///< kRouter
  ExpertGate gate = ExpertGate::kHalves;      ///< kExperts
  Pooling pooling = Pooling::kFirst;          ///< kPool
};

/// The operators of one layer: [first, last].
struct LayerRange {
  std::int32_t layer = 0;
  NodeId first{};
  NodeId last{};
  TensorId input{};
  TensorId output{};
};

}  // namespace headroom::ir
