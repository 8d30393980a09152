#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/megatron/layer_modules.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/rank_grid.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// Values that all parts of the lowering read and none changes. Shape letters are those of
/// spec/model_spec.h; T is the number of tokens of a micro-batch on this rank, S*B/CP.
struct Context {
  torch::Eager& eager;
  const ModelSpec& spec;
  const ParallelPlan& plan;
  const MegatronPlan& megatron;
  RankGrid grid;
  DType dtype = DType::kBf16;       ///< Type of parameters and activations.
  DType grad_dtype = DType::kFp32;  ///< Type of the gradient buffer.

  [[nodiscard]] std::int64_t tokens() const {
    return plan.workload.micro_batch * plan.workload.sequence / grid.context.size;
  }
  /// Tokens of the residual stream. Under sequence parallelism they are sharded over the
  /// tensor-parallel ranks.
  [[nodiscard]] std::int64_t stream_tokens() const {
    return sequence_parallel() ? tokens() / grid.tensor.size : tokens();
  }
  /// The group of adjacent context-parallel ranks that exchange heads, and the ring of such groups.
  [[nodiscard]] Axis exchange_ranks() const {
    const bool all = megatron.context_exchange == MegatronContext::kAllToAll;
    const std::int64_t size = all ? grid.context.size : megatron.context_exchange_ranks;
    return {.size = size, .rank = grid.context.rank % size, .stride = grid.context.stride};
  }
  [[nodiscard]] Axis ring_ranks() const {
    const std::int64_t exchanging = exchange_ranks().size;
    return {.size = grid.context.size / exchanging,
            .rank = grid.context.rank / exchanging,
            .stride = grid.context.stride * exchanging};
  }
  [[nodiscard]] bool fp8() const { return megatron.fp8 != MegatronFp8::kNone; }
  [[nodiscard]] bool sequence_parallel() const {
    return megatron.sequence_parallel && grid.tensor.size > 1;
  }
  /// Whether layers consist of Megatron-Core's own modules.
  [[nodiscard]] bool local() const { return !megatron.transformer_engine; }
};

struct NormWeights {
  torch::Tensor weight;
  torch::Tensor bias;  ///< LayerNorm only.
};

struct LinearWeights {
  torch::Tensor weight;  ///< [out, in] of this rank.
  torch::Tensor bias;
};

/// Tables of YarnRotaryEmbedding, which each layer has with latent attention. They are fp32 until
/// they are first used, then the type of the activations.
struct LatentTables {
  std::vector<torch::Tensor> frequencies;
  torch::Tensor cosine;  ///< [positions, rope_dim]
  torch::Tensor sine;
};

/// Positions for which the tables are first made.
/// Source: megatron/core/transformer/transformer_config.py, original_max_position_embeddings.
inline constexpr std::int64_t kLatentPositions = 4096;

/// Weights of DeepSeek's multi-head latent attention.
struct LatentWeights {
  LatentTables tables;
  LinearWeights query;  ///< Reads the hidden states if queries have no latent.
  LinearWeights query_down;
  NormWeights query_norm;  ///< Fused with the projection after it.
  LinearWeights query_up;
  LinearWeights kv_down;
  NormWeights kv_norm;
  LinearWeights kv_up;
};

struct AttentionWeights {
  NormWeights norm;
  LinearWeights output;
  LinearWeights qkv;
  NormWeights query_norm;
  NormWeights key_norm;
  torch::Tensor sinks;  ///< softmax_offset [A/TP]
  std::optional<LatentWeights> latent;
};

struct MlpWeights {
  LinearWeights up;  ///< fc1: gate and up in one matrix.
  LinearWeights down;
};

struct ExpertWeights {
  torch::Tensor router;                     ///< [E, H]
  torch::Tensor router_bias;                ///< [E]
  std::vector<torch::Tensor> chunk_orders;  ///< Chunk orders of the fused permutation.
  std::vector<torch::Tensor> up;            ///< Weights of each expert of this rank.
  std::vector<torch::Tensor> down;
  std::vector<torch::Tensor> up_bias;  ///< Empty without biases.
  std::vector<torch::Tensor> down_bias;
  std::optional<MlpWeights> shared;
};

struct LayerWeights {
  std::int32_t layer = 0;  ///< Number of the layer in the whole model.
  LayerModules modules;
  AttentionWeights attention;
  NormWeights mlp_norm;
  MlpWeights mlp;
  std::optional<ExpertWeights> experts;
};

/// A multi-token prediction layer: MultiTokenPredictionLayer.
struct PredictionWeights {
  NormWeights embedding_norm;
  NormWeights hidden_norm;
  LinearWeights projection;  ///< [H, 2H]
  LayerWeights layer;
  NormWeights final_norm;
};

/// How tensor-parallel ranks store a parameter.
enum class Held : std::uint8_t {
  kInParts,
  kWhole,  ///< Each rank has the whole parameter.
  /// Parameter of expert-parallel experts: reduced among the ranks with the same experts.
  kExpert,
};

/// A parameter as DistributedDataParallel and the optimizer see it.
struct Parameter {
  torch::Tensor tensor;
  Held held = Held::kInParts;
  bool marked = true;             ///< Marked as tensor-parallel: the norm counts every rank's part.
  bool shared_embedding = false;  ///< A tied embedding of which two stages hold a copy.
  bool decays = true;             ///< Has weight decay: neither a bias nor a norm.
  /// Stored in FP8, although its nominal type is that of the others: --fp8-param-gather.
  bool fp8 = false;
};

/// One model chunk of a pipeline stage: GPTModel.
struct Chunk {
  bool first = false;  ///< Has the embedding.
  bool last = false;   ///< Has the output layer and the loss.
  /// Has the final norm, which comes after the last layer. With multi-token prediction, the stage
  /// of the last transformer layer has it.
  /// Source: megatron/core/transformer/transformer_block.py, has_final_layernorm_in_this_stage.
  bool normed = false;
  torch::Tensor embedding;  ///< [V/TP, H]
  torch::Tensor positions;
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  std::vector<PredictionWeights> predictions;
  torch::Tensor head;                ///< The embedding itself, if it is tied and on the same stage.
  torch::Tensor frequencies;         ///< Frequencies of the rotary embedding, fp32 [D/2].
  std::optional<LatentTables> yarn;  ///< Further tensors of YarnRotaryEmbedding.
  std::vector<Parameter> parameters;  ///< In the order of named_parameters().
};

}  // namespace headroom::ir::megatron
