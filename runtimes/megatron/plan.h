#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// What Megatron-Core recomputes in backward (--recompute-granularity).
enum class MegatronRecompute : std::uint8_t {
  kNone,
  kSelective,    ///< The modules of `MegatronPlan::recompute_modules`.
  kFullUniform,  ///< Every layer, in groups of `recompute_layers`.
  kFullBlock,    ///< The first `recompute_layers` layers of each chunk of a stage.
};

/// --recompute-modules.
struct MegatronModules {
  bool core_attention = false;
  bool norms = false;  ///< "layernorm": norm outputs only.
  bool mlp = false;
  bool moe = false;
  bool moe_activation = false;
  bool latent_up = false;  ///< "mla_up_proj"
  bool shared_experts = false;
  friend bool operator==(const MegatronModules&, const MegatronModules&) = default;
};

/// --offload-modules: the parts of a layer whose saved tensors go to the host.
struct MegatronOffload {
  bool attention_norm = false;  ///< "attn_norm": the norm before latent attention.
  bool qkv_linear = false;
  bool core_attention = false;        ///< "core_attn"
  bool attention_projection = false;  ///< "attn_proj"
  bool mlp_norm = false;              ///< The norm before experts.
  bool expert_up = false;             ///< "expert_fc1"
  bool expert_activation = false;     ///< "moe_act"
  friend bool operator==(const MegatronOffload&, const MegatronOffload&) = default;
};

/// Which of Transformer Engine's attention backends runs (--attention-backend).
enum class MegatronAttention : std::uint8_t { kFused, kFlash, kUnfused };

/// How context-parallel ranks exchange tokens (--cp-comm-type).
enum class MegatronContext : std::uint8_t {
  kRing,      ///< "p2p": keys and values travel around the ring.
  kAllToAll,  ///< "a2a": ranks exchange tokens for heads.
};

/// Precision of the products in linear layers (--fp8-format hybrid with --fp8-recipe): operands are
/// cast to 8 bits, with scales per tensor or per block.
enum class MegatronFp8 : std::uint8_t {
  kNone,
  kDelayed,     ///< Scales from the amax of previous steps.
  kTensorwise,  ///< Scales from the amax of the tensor itself.
  kBlockwise,   ///< One scale per 128 elements of an activation, per 128 x 128 of a weight.
  kMxfp8,       ///< One scale per 32 elements; compute capability 10.0 and later.
};

/// --moe-token-dispatcher-type, and --moe-flex-dispatcher-backend of "flex".
enum class MegatronDispatcher : std::uint8_t {
  kAllToAll,
  kAllGather,
  kHybridEp,  ///< "flex": a token goes once to each rank and node that has one of its experts.
};

/// --cross-entropy-loss-fusion and --cross-entropy-fusion-impl.
enum class MegatronCrossEntropy : std::uint8_t {
  kUnfused,
  kNative,             ///< Compiled pieces.
  kTransformerEngine,  ///< "te": the gradient overwrites the logits.
};

/// Megatron-Core with Transformer Engine modules; options are named as its training script's
/// arguments. The degrees are in `ParallelPlan::mesh`.
struct MegatronPlan {
  std::int64_t layers_per_chunk = 0;    ///< --num-layers-per-virtual-pipeline-stage; 0: one chunk.
  std::int64_t first_stage_layers = 0;  ///< --decoder-first-pipeline-num-layers; 0: as others.
  std::int64_t last_stage_layers = 0;   ///< --decoder-last-pipeline-num-layers; 0: as others.
  /// --pipeline-model-parallel-layout: the layers of every chunk; empty: the fields above decide.
  std::string pipeline_layout{};
  std::int64_t micro_batch_group = 0;  ///< Consecutive micro-batches on one chunk; 0: PP.
  /// --overlap-p2p-communication-warmup-flush: what a pass receives is asked for one pass earlier.
  bool overlap_warmup_flush = false;
  std::int64_t optimizer_instances = 1;  ///< --num-distributed-optimizer-instances
  std::int64_t mtp_layers = 0;           ///< --mtp-num-layers: multi-token prediction.
  /// --cpu-offloading-num-layers: number of first layers whose saved tensors go to the host.
  std::int64_t offloaded_layers = 0;
  /// --hierarchical-context-parallel-sizes N CP/N (--cp-comm-type a2a+p2p): groups of N
  /// context-parallel ranks exchange heads; keys and values travel around the ring of groups. 1:
  /// one ring.
  std::int64_t context_exchange_ranks = 1;
  bool sequence_parallel = false;
  bool tp_comm_overlap = false;        ///< --tp-comm-overlap, which needs sequence parallelism.
  bool account_for_embedding = false;  ///< --account-for-embedding-in-pipeline-split
  bool account_for_loss = false;       ///< --account-for-loss-in-pipeline-split
  /// --use-tp-pp-dp-mapping: the rank order is tp-cp-ep-pp-dp instead of tp-cp-ep-dp-pp, so that
  /// pipeline stages are neighbours and data-parallel ranks are far apart.
  bool pipeline_before_data = false;
  bool distributed_optimizer = false;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  bool accumulation_fusion = true;  ///< Weight gradients accumulate inside their GEMM.
  bool fp32_gradients = true;       ///< --accumulate-allreduce-grads-in-fp32; bf16 only.
  /// --use-precision-aware-optimizer with fp32 master parameters and the following types.
  bool precision_aware = false;
  bool bf16_moments = false;  ///< exp_avg and exp_avg_sq in bf16.
  /// --optimizer-cpu-offload: the share of the optimizer's elements whose states and master weights
  /// are on the host (--optimizer-offload-fraction); 0: none.
  double optimizer_offload = 0;
  bool defer_head_gradient = false;  ///< --defer-embedding-wgrad-compute, for every micro-batch.
  /// --deterministic-mode: PyTorch's deterministic algorithms, CUBLAS_WORKSPACE_CONFIG=:4096:8.
  bool deterministic = false;
  bool transformer_engine = true;  ///< False: Megatron's own modules (--transformer-impl local).
  /// False: --no-initialization. Megatron's own layers then do not mark their weights as
  /// tensor-parallel, so the gradient norm counts only those of the first tensor-parallel rank.
  bool perform_initialization = true;
  bool rope_fusion = true;  ///< False: --no-rope-fusion.
  MegatronCrossEntropy cross_entropy = MegatronCrossEntropy::kUnfused;
  bool mask_in_dataloader = true;  ///< --create-attention-mask-in-dataloader
  MegatronAttention attention = MegatronAttention::kFused;
  MegatronContext context_exchange = MegatronContext::kRing;
  MegatronFp8 fp8 = MegatronFp8::kNone;
  bool fp8_parameters =
      false;  ///< --fp8-param-gather: weights of linear layers are stored in 8 bits.
  MegatronRecompute recompute = MegatronRecompute::kNone;
  std::int64_t recompute_layers = 1;
  MegatronModules recompute_modules{};
  MegatronOffload offload_modules{};  ///< --fine-grained-activation-offloading; none: off.
  /// Least number of elements of a tensor that goes to the host.
  std::int64_t least_offloaded = std::int64_t{1} << 20;
  std::int64_t vocabulary_divisor = 128;    ///< --make-vocab-size-divisible-by
  bool permute_fusion = false;              ///< --moe-permute-fusion
  std::optional<double> capacity_factor{};  ///< --moe-expert-capacity-factor; none: dropless.
  bool aux_loss = true;                     ///< --moe-router-load-balancing-type aux_loss
  bool grouped_gemm = true;                 ///< --moe-grouped-gemm
  bool sinkhorn = false;                    ///< --moe-router-load-balancing-type sinkhorn
  bool router_fp32 = false;                 ///< --moe-router-dtype fp32
  MegatronDispatcher dispatcher = MegatronDispatcher::kAllToAll;
  bool shared_expert_overlap = false;  ///< --moe-shared-expert-overlap
  /// --overlap-moe-expert-parallel-comm: a forward and a backward run at the same time, layer by
  /// layer, so that all-to-alls of one overlap products of the other.
  bool overlap_expert_exchange = false;
  /// --delay-wgrad-compute: products for gradients of weights run when the schedule asks for them.
  bool delayed_weight_gradients = false;
  /// --use-transformer-engine-op-fuser under MXFP8: the experts' products also compute the
  /// activation and the casts. Memory is that of separate kernels, which is no less.
  bool fused_experts = false;
  /// Tokens routed to the experts of the rank shown, divided by an even share; 1: balanced routing.
  double expert_load = 1;
  friend bool operator==(const MegatronPlan&, const MegatronPlan&) = default;
};

/// ETP: tensor-parallel ranks of an expert, by default as many as of other layers.
[[nodiscard]] inline std::int64_t expert_tensor_of(const Mesh& mesh) {
  return mesh.expert_tensor > 0 ? mesh.expert_tensor : mesh.tensor;
}

/// Megatron-Core's options of a plan; the defaults if it has none.
[[nodiscard]] inline const MegatronPlan& megatron_of(const ParallelPlan& plan) {
  return plan.own.get<MegatronPlan>();
}
/// The same to edit, which adds them to a plan that has none.
inline MegatronPlan& edit_megatron(ParallelPlan& plan) {
  return plan.own.edit<MegatronPlan>();
}
/// Whether the plan has them.
[[nodiscard]] inline bool has_megatron(const ParallelPlan& plan) {
  return plan.own.has<MegatronPlan>();
}

}  // namespace headroom::ir
