#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model_ir/base/error.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/titan_stages.h"
#include "model_ir/runtime/fsdp/sharded_group.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/spec/model_spec.h"

/// torchtitan's own modelling and training code on FSDP2 and DTensor.
/// Source: pytorch/torchtitan 0.2.2.
namespace headroom::ir::torchtitan {

/// TransformerBlock: weights [out, in] as this tensor-parallel rank holds them when gathered.
struct Block {
  torch::Tensor wq, wk, wv, wo;
  torch::Tensor q_norm, k_norm;  ///< [D]; Qwen3 alone.
  torch::Tensor w1, w2, w3;
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
};

/// A model and what fully_shard has made of its parameters.
struct ShardedModel {
  Model model;
  std::vector<std::unique_ptr<fsdp::ShardedGroup>> groups;  ///< The root, then in module order.
  std::vector<torch::Tensor> shards;                        ///< In the order of parameters().
  std::vector<torch::Tensor> quantised;  ///< Of `shards`: those that are gathered in 8 bits.
  /// Of `shards`: which are the same on every tensor-parallel rank (norms).
  std::vector<bool> replicated;
};

/// The last norm's group, where the head is called by the loss.
inline constexpr std::int32_t kNormModule = -4;
/// Whether the head and the loss take the sequence in pieces (ChunkedCELoss).
[[nodiscard]] bool has_chunked_loss(const ParallelPlan& plan);

/// Versions of PyTorch before 2.9 (`plan.runtime_version`), whose rms_norm is no kernel of its own.
[[nodiscard]] bool composes_norms(const ParallelPlan& plan);

/// Whether the loss is a compiled function, as blocks are.
[[nodiscard]] bool compiles_loss(const ParallelPlan& plan);

/// Rotary tables of cosines and sines instead of complex numbers (Qwen3).
[[nodiscard]] bool has_cosine_table(const ModelSpec& spec);

/// Why torchtitan's code, as far as it is modelled, cannot run this; nothing if it can.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan);

/// Builds the model on the meta device, shards it among tensor-parallel ranks and then by FSDP,
/// gives shards and buffers memory (`to_empty`) and fills them (`init_weights`).
/// `sharding.ranks`: that share what a tensor-parallel rank holds.
[[nodiscard]] ShardedModel load_model(const fsdp::Sharding& sharding, const ModelSpec& spec,
                                      const ParallelPlan& plan, const TitanChunk& part);

}  // namespace headroom::ir::torchtitan
