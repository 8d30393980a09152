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

/// MoE: what a block holds instead of a dense feed-forward.
struct Mixture {
  torch::Tensor w1, w2, w3;  ///< GroupedExperts: [E/e, F, H], [E/e, H, F], [E/e, F, H].
  torch::Tensor router;      ///< [E, H].
  torch::Tensor bias;        ///< expert_bias, a buffer [E].
  torch::Tensor counts;      ///< tokens_per_expert, a buffer [E].
  /// ExpertParallel.permuted_indices, which stay alive until the next forward.
  std::shared_ptr<torch::Tensor> permutation;
};

/// TransformerBlock: weights [out, in] as this tensor-parallel rank holds them after the
/// all-gather.
struct Block {
  torch::Tensor wq, wk, wv, wo;
  torch::Tensor q_norm, k_norm;  ///< [D]; only Qwen3 has them.
  torch::Tensor w1, w2, w3;      ///< Weights of the dense feed-forward.
  Mixture mixture;               ///< Its weights are undefined if the feed-forward is dense.
  torch::Tensor attention_norm, ffn_norm;  ///< [H].
};

/// A model, or the part of it that one pipeline stage holds.
struct Model {
  const ModelSpec* spec = nullptr;
  const ParallelPlan* plan = nullptr;
  torch::Tensor embedding;  ///< tok_embeddings [V/T, H]; only in the first part of the model.
  std::vector<Block> blocks;
  std::int64_t first_layer = 0;  ///< Number of the first of `blocks` in the whole model.
  /// Blocks in parts of the same process that were made before: checkpointing counts them to find
  /// each k-th block.
  std::int64_t blocks_before = 0;
  torch::Tensor norm;    ///< Only in the last part of the model, like `output`.
  torch::Tensor output;  ///< [V/T, H].
  /// Llama: complex [S, D/2], stored as pairs of fp32. Qwen3: cosines and sines, fp32 [S, 2D].
  torch::Tensor rotary;
  /// What each block keeps, if a memory budget makes it keep less than without one.
  std::optional<KeptValues> kept;
};

/// Arguments of fsdp::FullyShard::set_prefetch.
struct Prefetch {
  std::int32_t module = 0;
  std::vector<std::int32_t> forward, backward;
};

/// A model, and what fully_shard has made of its parameters.
struct ShardedModel {
  Model model;
  /// The root first, then in module order.
  std::vector<std::unique_ptr<fsdp::ShardedGroup>> groups;
  std::vector<torch::Tensor> shards;     ///< Shards, in the order of parameters().
  std::vector<torch::Tensor> quantised;  ///< Those of `shards` that are gathered in FP8.
  /// For each of `shards`: whether it is the same on every tensor-parallel rank (norms).
  std::vector<bool> replicated;
  /// For each of `shards`: whether it holds experts of expert-parallel ranks.
  std::vector<bool> spread;
  /// What each group prefetches, if the host waits for token counts in between.
  std::vector<Prefetch> prefetches;
};

/// The group of the last norm, if the loss calls the head.
inline constexpr std::int32_t kNormModule = -4;
/// The group of the experts of layer `layer` under expert parallelism.
[[nodiscard]] constexpr std::int32_t experts_module(std::int32_t layer) {
  return -16 - layer;
}
/// Whether the head and the loss process the sequence in chunks (ChunkedCELoss).
[[nodiscard]] bool has_chunked_loss(const ParallelPlan& plan);

/// Whether `plan.runtime_version` is a PyTorch before 2.9, whose rms_norm is not a kernel of its
/// own.
[[nodiscard]] bool composes_norms(const ParallelPlan& plan);

/// Whether the loss is a compiled function, like the blocks.
[[nodiscard]] bool compiles_loss(const ParallelPlan& plan);

/// Why torchtitan's code, as far as it is modelled, cannot run this plan. Returns nothing if it
/// can.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan);

/// Builds the model on the meta device and shards it over tensor-parallel ranks and then by FSDP.
/// Allocates shards and buffers (`to_empty`) and initialises them (`init_weights`).
/// `sharding.ranks`: the ranks that share what a tensor-parallel rank holds.
[[nodiscard]] ShardedModel load_model(const fsdp::Sharding& sharding, const ModelSpec& spec,
                                      const ParallelPlan& plan, const TitanChunk& part);

}  // namespace headroom::ir::torchtitan
