#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/megatron/layer_modules.h"
#include "runtimes/megatron/mesh.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// What every part of the lowering reads and none changes. Shape letters as in
/// spec/model_spec.h; T is the number of tokens of a micro-batch on this rank, S*B/CP.
struct Context {
  torch::Eager& eager;
  const ModelSpec& spec;
  const ParallelPlan& plan;
  const MegatronPlan& megatron;
  Mesh mesh;
  DType dtype = DType::kBf16;       ///< Of parameters and activations.
  DType grad_dtype = DType::kFp32;  ///< Of the gradient buffer.

  [[nodiscard]] std::int64_t tokens() const {
    return plan.micro_batch * plan.sequence / mesh.context.size;
  }
  /// Tokens of the residual stream: cut among the tensor-parallel ranks under sequence parallelism.
  [[nodiscard]] std::int64_t stream_tokens() const {
    return sequence_parallel() ? tokens() / mesh.tensor.size : tokens();
  }
  /// Context-parallel ranks that exchange heads, side by side, and the ring of such groups.
  [[nodiscard]] Axis exchange_ranks() const {
    const bool all = megatron.context_exchange == MegatronContext::kAllToAll;
    const std::int64_t size = all ? mesh.context.size : megatron.context_exchange_ranks;
    return {.size = size, .rank = mesh.context.rank % size, .stride = mesh.context.stride};
  }
  [[nodiscard]] Axis ring_ranks() const {
    const std::int64_t exchanging = exchange_ranks().size;
    return {.size = mesh.context.size / exchanging,
            .rank = mesh.context.rank / exchanging,
            .stride = mesh.context.stride * exchanging};
  }
  [[nodiscard]] bool fp8() const { return megatron.fp8 != MegatronFp8::kNone; }
  [[nodiscard]] bool sequence_parallel() const {
    return megatron.sequence_parallel && mesh.tensor.size > 1;
  }
  /// Layers are made of Megatron-Core's own modules.
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

/// YarnRotaryEmbedding, with latent attention of each layer: fp32, or the type of the activations
/// once they have been used.
struct LatentTables {
  std::vector<torch::Tensor> frequencies;
  torch::Tensor cosine;  ///< [positions, rope_dim]
  torch::Tensor sine;
};

/// Positions that the tables are first made for.
/// Source: megatron/core/transformer/transformer_config.py, original_max_position_embeddings.
inline constexpr std::int64_t kLatentPositions = 4096;

/// DeepSeek's projections through latents.
struct LatentWeights {
  LatentTables tables;
  LinearWeights query;  ///< Straight from the hidden state, where there is no query latent.
  LinearWeights query_down;
  NormWeights query_norm;  ///< Fused with the projection that follows.
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
  LinearWeights up;  ///< fc1: gate and up in one.
  LinearWeights down;
};

struct ExpertWeights {
  torch::Tensor router;                     ///< [E, H]
  torch::Tensor router_bias;                ///< [E]
  std::vector<torch::Tensor> chunk_orders;  ///< Of the fused permutation.
  std::vector<torch::Tensor> up;            ///< Of each expert of this rank.
  std::vector<torch::Tensor> down;
  std::vector<torch::Tensor> up_bias;  ///< Empty without biases.
  std::vector<torch::Tensor> down_bias;
  std::optional<MlpWeights> shared;
};

struct LayerWeights {
  std::int32_t layer = 0;  ///< Of the whole model.
  LayerModules modules;
  AttentionWeights attention;
  NormWeights mlp_norm;
  MlpWeights mlp;
  std::optional<ExpertWeights> experts;
};

/// A layer that predicts a token further ahead: MultiTokenPredictionLayer.
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
  kWhole,   ///< Each has it all.
  kExpert,  ///< Of experts spread over ranks: reduced among those that hold the same ones.
};

/// A parameter as DistributedDataParallel and the optimizer see it.
struct Parameter {
  torch::Tensor tensor;
  Held held = Held::kInParts;
  bool marked = true;             ///< As one of tensor-parallel parts: the norm counts each rank's.
  bool shared_embedding = false;  ///< A tied table of which two stages hold a copy.
  bool decays = true;             ///< Weight decay: neither biases nor norms.
  /// Held in 8 bits, in the type of the others only by name: --fp8-param-gather.
  bool fp8 = false;
};

/// One model chunk of a pipeline stage: GPTModel.
struct Chunk {
  bool first = false;  ///< Has the embedding.
  bool last = false;   ///< Has the output layer and the loss.
  /// Has the norm behind the layers: the last one, with multi-token prediction that of the last
  /// layer. Source: megatron/core/transformer/transformer_block.py,
  /// has_final_layernorm_in_this_stage.
  bool normed = false;
  torch::Tensor embedding;  ///< [V/TP, H]
  torch::Tensor positions;
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  std::vector<PredictionWeights> predictions;
  torch::Tensor head;                 ///< The embedding where tied on one stage.
  torch::Tensor frequencies;          ///< Of the rotary embedding, fp32 [D/2].
  std::optional<LatentTables> yarn;   ///< What YarnRotaryEmbedding holds beside them.
  std::vector<Parameter> parameters;  ///< In the order of named_parameters().
};

}  // namespace headroom::ir::megatron
