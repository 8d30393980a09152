#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torchtitan/kept_values.h"
#include "runtimes/torchtitan/stage_layers.h"

/// torchtitan's own modelling and training code on FSDP2 and DTensor.
/// Source: pytorch/torchtitan 0.2.2.
namespace headroom::ir::torchtitan {

/// MoE: what its block holds in place of a dense feed-forward.
struct Mixture {
  torch::Tensor w1, w2, w3;  ///< GroupedExperts: [E/e, F, H], [E/e, H, F], [E/e, F, H].
  torch::Tensor router;      ///< [E, H]
  torch::Tensor bias;        ///< expert_bias, a buffer [E].
  torch::Tensor counts;      ///< tokens_per_expert, a buffer [E].
  /// ExpertParallel.permuted_indices, which stay until the next forward.
  std::shared_ptr<torch::Tensor> permutation;
};

/// TransformerBlock: weights [out, in] as this tensor-parallel rank holds them when gathered.
struct Block {
  torch::Tensor wq, wk, wv, wo;
  torch::Tensor q_norm, k_norm;            ///< [D]; Qwen3 alone.
  torch::Tensor w1, w2, w3;                ///< Of the dense feed-forward.
  Mixture mixture;                         ///< Undefined weights where the feed-forward is dense.
  torch::Tensor attention_norm, ffn_norm;  ///< [H]
};

/// A model, or the part of it that one stage of a pipeline holds.
struct Model {
  const ModelSpec* spec = nullptr;
  const ParallelPlan* plan = nullptr;
  torch::Tensor embedding;  ///< tok_embeddings [V/T, H]; only where the model begins.
  std::vector<Block> blocks;
  std::int64_t first_layer = 0;  ///< Of `blocks`, in the whole model.
  /// Blocks in the parts of the same process that were made before: each k-th is checkpointed.
  std::int64_t blocks_before = 0;
  torch::Tensor norm;    ///< Only where the model ends, as `output`.
  torch::Tensor output;  ///< [V/T, H]
  /// Llama: complex [S, D/2], as pairs of fp32; Qwen3: cosines and sines, fp32 [S, 2D].
  torch::Tensor rotary;
  /// Of each block, under a memory budget that makes it keep less than without one.
  std::optional<KeptValues> kept;
};

/// fsdp::FullyShard::set_prefetch
struct Prefetch {
  std::int32_t module = 0;
  std::vector<std::int32_t> forward, backward;
};

/// A model and what fully_shard has made of its parameters.
struct ShardedModel {
  Model model;
  std::vector<std::unique_ptr<fsdp::ShardedGroup>> groups;  ///< The root, then in module order.
  std::vector<torch::Tensor> shards;                        ///< In the order of parameters().
  std::vector<torch::Tensor> quantised;  ///< Of `shards`: those that are gathered in 8 bits.
  /// Of `shards`: which are the same on every tensor-parallel rank (norms).
  std::vector<bool> replicated;
  std::vector<bool> spread;  ///< Of `shards`: experts, spread among expert-parallel ranks.
  /// What each group gathers next, where the host waits for counts of tokens in between.
  std::vector<Prefetch> prefetches;
};

/// The last norm's group, where the head is called by the loss.
inline constexpr std::int32_t kNormModule = -4;
/// The group of the experts of layer `layer`, where they are spread among ranks.
[[nodiscard]] constexpr std::int32_t experts_module(std::int32_t layer) {
  return -16 - layer;
}
/// Whether the head and the loss take the sequence in pieces (ChunkedCELoss).
[[nodiscard]] bool has_chunked_loss(const ParallelPlan& plan);

/// Versions of PyTorch before 2.9 (`plan.runtime_version`), whose rms_norm is no kernel of its own.
[[nodiscard]] bool composes_norms(const ParallelPlan& plan);

/// Whether the loss is a compiled function, as blocks are.
[[nodiscard]] bool compiles_loss(const ParallelPlan& plan);

/// Why torchtitan's code, as far as it is modelled, cannot run this; nothing if it can.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan);

/// Builds the model on the meta device, shards it among tensor-parallel ranks and then by FSDP,
/// gives shards and buffers memory (`to_empty`) and fills them (`init_weights`).
/// `sharding.ranks`: that share what a tensor-parallel rank holds.
[[nodiscard]] ShardedModel load_model(const fsdp::Sharding& sharding, const ModelSpec& spec,
                                      const ParallelPlan& plan, const TitanChunk& part);

}  // namespace headroom::ir::torchtitan
