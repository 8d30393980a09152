#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/pipeline_schedule.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::ir {

/// torchtitan's parallelism.fsdp_reshard_after_forward.
enum class TitanReshard : std::uint8_t {
  kDefault,  ///< All but the last group, which is gathered at once again; none in a pipeline.
  kAlways,
  kNever,
};

/// How torchao's float8 linear layers are scaled.
/// Source: pytorch/ao 0.17 torchao/float8/config.py, Float8LinearConfig.from_recipe_name.
enum class Float8Recipe : std::uint8_t {
  kNone,
  kTensorwise,
  kRowwise,
  kRowwiseGradientHp,  ///< rowwise_with_gw_hp: the GEMMs for weight gradients stay in 16 bits.
};

/// torchtitan's own options; the rest is in `FsdpPlan` and in the plan itself, the degrees in
/// `ParallelPlan::mesh`.
struct TitanPlan {
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;  ///< pipeline_parallel_schedule
  /// pipeline_parallel_microbatch_size: how many of the rank's `Workload::micro_batch`
  /// sequences pass through the pipeline together.
  std::int64_t pipeline_batch = 1;
  std::int64_t stage_layers = 0;      ///< pipeline_parallel_layers_per_stage; 0: one or two.
  std::int64_t first_stage_less = 1;  ///< Layers that the embedding counts as in the split.
  std::int64_t last_stage_less = 1;   ///< Layers that norm and head count as.
  bool loss_parallel = true;          ///< Logits stay sharded by vocabulary.
  TitanReshard reshard = TitanReshard::kDefault;
  /// Selective checkpointing "op": layers are recomputed except every second matrix product,
  /// attention and reduce-scatters. Otherwise `ParallelPlan::recompute` decides.
  bool selective_operators = false;
  bool compiled = false;  ///< torch.compile of each block.
  /// memory_budget checkpointing: the share, from 0 to 1, of the tensors that compiled blocks would
  /// save.
  std::optional<double> memory_budget = std::nullopt;
  Float8Recipe float8 =
      Float8Recipe::kNone;         ///< The recipe of the blocks' linear layers; the head has none.
  bool float8_gather = false;      ///< enable_fsdp_float8_all_gather
  bool float8_precompute = false;  ///< precompute_float8_dynamic_scale_for_fsdp
  friend bool operator==(const TitanPlan&, const TitanPlan&) = default;
};

/// ETP: tensor-parallel ranks of an expert; 1 or as many as of other layers.
[[nodiscard]] inline std::int64_t titan_expert_tensor(const Mesh& mesh) {
  return mesh.expert_tensor > 0 ? mesh.expert_tensor : 1;
}

/// torchtitan's options of a plan; the defaults if it has none.
[[nodiscard]] inline const TitanPlan& titan_of(const ParallelPlan& plan) {
  return plan.own.get<TitanPlan>();
}
/// The same to edit, which adds them to a plan that has none.
inline TitanPlan& edit_titan(ParallelPlan& plan) {
  return plan.own.edit<TitanPlan>();
}
/// Whether the plan has them.
[[nodiscard]] inline bool has_titan(const ParallelPlan& plan) {
  return plan.own.has<TitanPlan>();
}

[[nodiscard]] std::span<const Word<TitanReshard>> titan_reshard_words();
[[nodiscard]] std::span<const Word<Float8Recipe>> float8_recipe_words();

}  // namespace headroom::ir
