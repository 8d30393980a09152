#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/plan/own_options.h"
#include "model_ir/plan/pipeline_schedule.h"
#include "model_ir/spec/dtype.h"

namespace headroom::ir {

/// How parameters, arithmetic and optimizer states are stored.
enum class Precision : std::uint8_t {
  kFp32,
  kBf16,              ///< Pure bf16: parameters, gradients and states.
  kFp16,              ///< Pure fp16 parameters without a scaler (for study; DeepSpeed scales).
  kAutocastBf16,      ///< fp32 parameters under torch.autocast(bf16).
  kAutocastFp16,      ///< fp32 parameters under torch.autocast(fp16) with GradScaler.
  kBf16AutocastBf16,  ///< bf16 parameters under torch.autocast(bf16).
  kBf16Master,        ///< bf16 parameters and gradients, fp32 master copy and states.
  kFp16Master,        ///< fp16 with loss scaling, fp32 master copy and states.
};

enum class OptimizerKind : std::uint8_t {
  kNone,
  kAdamW,
  kSgd,
  kAdafactor,       ///< transformers.optimization.Adafactor, scale_parameter and relative_step off.
  kAdafactorTorch,  ///< torch.optim.Adafactor.
  kLion,
  kMuon,  ///< torch.optim.Muon for the matrices of the layers, AdamW for the rest.
};

/// How the optimizer's step is carried out, and where its states live.
enum class OptimizerForm : std::uint8_t {
  kForeach,  ///< torch's default on CUDA.
  kFused,
  kLoop,
  kEightBit,  ///< bitsandbytes, block-wise 8-bit states.
  kPagedEightBit,
  kPaged,  ///< bitsandbytes, fp32 states in unified memory (PagedAdamW32bit).
};

/// kSdpa: scaled_dot_product_attention with PyTorch's choice of kernel; kSdpaNoCudnn: the same
/// after torch.backends.cuda.enable_cudnn_sdp(False).
enum class AttentionKind : std::uint8_t { kSdpa, kEager, kFlash, kSdpaNoCudnn };

/// Activation recomputation.
enum class Recompute : std::uint8_t {
  kNone,
  kFull,           ///< Every layer, torch.utils.checkpoint(use_reentrant=False).
  kFullReentrant,  ///< Every layer, use_reentrant=True.
};

enum class LossKind : std::uint8_t {
  kHf,           ///< transformers' fp32 cross entropy over all logits.
  kChunked,      ///< The same in chunks of the sequence.
  kFusedLinear,  ///< Liger's fused linear cross entropy.
};

struct OptimizerPlan {
  OptimizerKind kind = OptimizerKind::kAdamW;
  OptimizerForm form = OptimizerForm::kForeach;
  double momentum = 0;  ///< SGD; 0: none.
  friend bool operator==(const OptimizerPlan&, const OptimizerPlan&) = default;
};

struct LoraPlan {
  std::int64_t rank = 16;
  double dropout = 0;
  bool dora = false;
  bool rank_stabilised = false;
  std::vector<std::string> targets;  ///< Module names; empty: all linear layers but the head.
  /// Suffixes of module names. A copy of each such module is trained in full (embed_tokens,
  /// lm_head, norms).
  std::vector<std::string> modules_to_save{};
  friend bool operator==(const LoraPlan&, const LoraPlan&) = default;
};

/// Quantised frozen weights under LoRA (bitsandbytes).
struct QuantPlan {
  int bits = 4;  ///< 4 (NF4) or 8 (LLM.int8()).
  bool double_quant = true;
  bool prepare_kbit = true;  ///< prepare_model_for_kbit_training.
  friend bool operator==(const QuantPlan&, const QuantPlan&) = default;
};

enum class OffloadDevice : std::uint8_t { kNone, kCpu, kNvme };

/// Modules whose parameters ZeRO stage 3 gathers and releases as one unit (set_z3_leaf_modules).
enum class ZeroLeaf : std::uint8_t {
  kDefault,  ///< Blocks of experts whose classes DeepSpeed knows.
  kExperts,  ///< Every block of experts.
};

/// DeepSpeed ZeRO, with the keys of its configuration; sizes in elements.
struct ZeroPlan {
  int stage = 0;
  std::int64_t reduce_bucket_size = 500'000'000;
  std::int64_t allgather_bucket_size = 500'000'000;
  std::optional<bool> overlap_comm;  ///< none: true for stage 3, else false.
  bool contiguous_gradients = true;
  bool round_robin_gradients = false;
  std::int64_t sub_group_size = 1'000'000'000;
  std::int64_t prefetch_bucket_size = 50'000'000;
  std::int64_t param_persistence_threshold = 100'000;
  std::int64_t model_persistence_threshold = INT64_MAX;
  std::int64_t max_live_parameters = 1'000'000'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  OffloadDevice offload_optimizer = OffloadDevice::kNone;
  OffloadDevice offload_param = OffloadDevice::kNone;
  /// offload_optimizer.ratio (ZeRO-Offload++, "Twin-Flow"): the share of stage 3's sub-groups whose
  /// master weights, gradients and optimizer states are on the host; the first sub-groups stay on
  /// the device.
  double offload_ratio = 1;
  std::string nvme_path;
  /// Norms and biases form their own parameter group without weight decay, as in transformers'
  /// Trainer. Each group is flattened, padded and partitioned separately.
  bool decay_groups = false;
  /// data_types.grad_accum_dtype; none: the parameters' type.
  std::optional<DType> grad_accum_dtype;
  /// Whether a fused AdamW is torch's; otherwise it is DeepSpeed's FusedAdam.
  bool torch_adam = false;
  /// ZeRO++ (hpZ): number of ranks that share the secondary partition of the parameters; 1: none.
  std::int64_t hpz_partition_size = 1;
  bool quantized_weights = false;    ///< qwZ: parameters are gathered as 8-bit integers.
  bool quantized_gradients = false;  ///< qgZ: gradients are exchanged as 4-bit integers.
  std::int64_t node_devices = 8;     ///< Devices per node, for qgZ.
  ZeroLeaf leaf = ZeroLeaf::kDefault;
  /// True: each gradient is reduced to its owner. False: every rank gets the whole bucket.
  bool reduce_scatter = true;
  /// Stages 1 and 2. True: one all-reduce for the parts of several owners. False: one reduce to
  /// each owner.
  bool multi_rank_allreduce = true;
  bool parameter_alignment = false;  ///< Stages 1 and 2: parameters begin at multiples of 16 bytes.
  bool compute_grad_norm = true;     ///< Stages 1 and 2.
  bool memory_efficient_linear = true;  ///< Stage 3: DeepSpeed's own linear function.
  bool allgather_sequential = false;    ///< Stage 3: parameters are gathered one by one.
  bool all_reduce_fetch = false;        ///< Stage 3: parameters are gathered by an all-reduce.
  /// Type in which gradients are communicated; none: the engine's own type.
  std::optional<DType> communication_dtype;
  friend bool operator==(const ZeroPlan&, const ZeroPlan&) = default;
};

/// torch DistributedDataParallel.
struct DdpPlan {
  bool gradient_as_bucket_view = false;
  std::int64_t bucket_cap_bytes = 25 * kMiB;
  friend bool operator==(const DdpPlan&, const DdpPlan&) = default;
};

/// When FullyShardedDataParallel gathers the next unit in backward.
enum class FsdpPrefetch : std::uint8_t {
  kBackwardPre,   ///< Before the gradients of the current unit are computed.
  kBackwardPost,  ///< After they are computed, before they are reduced.
  kNone,
};

/// PyTorch's FSDP: one group of parameters per layer and one for the rest.
struct FsdpPlan {
  /// 2: torch.distributed.fsdp.fully_shard. 1: FullyShardedDataParallel as Accelerate sets it up.
  int version = 2;
  /// Parameters are resharded after forward and gathered again for backward.
  bool reshard_after_forward = true;
  bool shard_decoder = true;          ///< An encoder-decoder's decoder layers are groups as well.
  bool shard_embeddings = false;      ///< Embedding and head are groups of their own, unless tied.
  DType param_dtype = DType::kBf16;   ///< Type of the gathered parameters and of the arithmetic.
  DType reduce_dtype = DType::kFp32;  ///< Type in which gradients are reduced.
  std::int64_t replicas = 1;          ///< Hybrid sharding: copies of the sharded model.
  /// After forward, parameters are resharded among only this many ranks; 0: among all ranks.
  std::int64_t reshard_ranks = 0;
  bool cpu_offload = false;  ///< CPUOffloadPolicy: shards, gradients and states on the host.
  // Version 1 only.
  bool use_orig_params = true;  ///< false: the optimizer sees one flat tensor per unit.
  FsdpPrefetch backward_prefetch = FsdpPrefetch::kBackwardPre;
  bool forward_prefetch = false;  ///< The next unit is gathered before this one runs.
  friend bool operator==(const FsdpPlan&, const FsdpPlan&) = default;
};

/// `model.generate` after the steps: prompts of `ParallelPlan::sequence` tokens.
struct GenerationPlan {
  std::int64_t new_tokens = 64;
  bool static_cache = false;  ///< StaticCache; otherwise DynamicCache, which grows by copies.
  friend bool operator==(const GenerationPlan&, const GenerationPlan&) = default;
};

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
/// arguments. The data-parallel degree is `ParallelPlan::world` divided by the other degrees.
struct MegatronPlan {
  std::int64_t tensor = 1;              ///< TP
  std::int64_t pipeline = 1;            ///< PP
  std::int64_t context = 1;             ///< CP
  std::int64_t expert = 1;              ///< EP
  std::int64_t expert_tensor = 0;       ///< ETP; 0: same as `tensor`.
  std::int64_t layers_per_chunk = 0;    ///< --num-layers-per-virtual-pipeline-stage; 0: one chunk.
  std::int64_t first_stage_layers = 0;  ///< --decoder-first-pipeline-num-layers; 0: as others.
  std::int64_t last_stage_layers = 0;   ///< --decoder-last-pipeline-num-layers; 0: as others.
  /// --pipeline-model-parallel-layout: the layers of every chunk; empty: the fields above decide.
  std::string pipeline_layout{};
  std::int64_t micro_batch_group = 0;    ///< Consecutive micro-batches on one chunk; 0: PP.
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
  /// Tokens routed to the experts of the rank shown, divided by an even share; 1: balanced routing.
  double expert_load = 1;
  friend bool operator==(const MegatronPlan&, const MegatronPlan&) = default;
};

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

/// torchtitan's own options; the rest is in `FsdpPlan` and in the plan itself. The data-parallel
/// degree is `ParallelPlan::world` divided by the other degrees.
struct TitanPlan {
  std::int64_t tensor = 1;   ///< tensor_parallel_degree; implies sequence parallelism.
  std::int64_t context = 1;  ///< context_parallel_degree: ring attention, keys gathered at once.
  std::int64_t expert = 1;   ///< expert_parallel_degree; uses ranks of the data-parallel group.
  std::int64_t expert_tensor = 1;  ///< expert_tensor_parallel_degree: 1 or `tensor`.
  std::int64_t pipeline = 1;       ///< pipeline_parallel_degree
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;  ///< pipeline_parallel_schedule
  /// pipeline_parallel_microbatch_size: how many of the rank's `ParallelPlan::micro_batch`
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
  Float8Recipe float8 = Float8Recipe::kNone;  ///< Of the blocks' linear layers, not of the head.
  bool float8_gather = false;                 ///< enable_fsdp_float8_all_gather
  bool float8_precompute = false;             ///< precompute_float8_dynamic_scale_for_fsdp
  friend bool operator==(const TitanPlan&, const TitanPlan&) = default;
};

/// torchtune's own options.
struct TunePlan {
  bool compiled = false;               ///< compile: every layer and the loss of each chunk.
  bool optimizer_in_backward = false;  ///< optimizer_in_bwd: each gradient is applied at once.
  bool offload_activations = false;    ///< enable_activation_offloading: to the host.
  friend bool operator==(const TunePlan&, const TunePlan&) = default;
};

/// Addresses of segments: wherever cudaMalloc places them, or each above the previous one. Of two
/// free blocks of the same size, the allocator takes the one at the lower address.
enum class SegmentPlaces : std::uint8_t { kDriver, kRising };

/// PYTORCH_ALLOC_CONF, and the driver's behaviour. Source: c10/core/AllocatorConfig.h.
struct AllocatorSettings {
  bool expandable_segments = false;
  std::optional<Bytes> max_split_size;
  Bytes max_non_split_rounding{20 * kMiB};
  double garbage_collection_threshold = 0;    ///< 0: off.
  std::int64_t roundup_power2_divisions = 0;  ///< 0: off.
  SegmentPlaces segments = SegmentPlaces::kDriver;
  friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

/// Everything about a run that can be chosen. Plain data; its JSON form is `plan/plan_json.h`.
struct ParallelPlan {
  std::string runtime = "transformers";  ///< The framework's name in `runtimes/registry.h`.
  std::string runtime_version;           ///< Empty: the newest modelled version.
  Precision precision = Precision::kBf16;
  OptimizerPlan optimizer;
  AttentionKind attention = AttentionKind::kSdpa;
  LossKind loss = LossKind::kHf;
  bool liger = false;             ///< Liger's RMSNorm, SwiGLU or GeGLU and rotary kernels.
  std::int64_t micro_batch = 1;   ///< B
  std::int64_t sequence = 2048;   ///< S
  std::int64_t accumulation = 1;  ///< Micro-batches per optimizer step.
  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_every = 1;  ///< Every k-th layer.
  /// Only the first N layers, whose activations live longest; 0: all of them. Transformers' layers
  /// alone can be told so one by one.
  std::int64_t recompute_first = 0;
  std::optional<double> clip_norm;
  /// Batches contain padding, which an attention mask marks. Masks without padding, which
  /// transformers detects and drops, are not assumed.
  bool padded_batch = false;
  bool keep_logits = false;  ///< The output object lives until backward has ended.
  /// True, as in transformers' Trainer: the batch is a loop variable with its own labels, which
  /// lives until the next batch replaces it, and the loss is not divided among micro-batches.
  /// False: the labels are the input ids, which are freed after backward.
  bool keep_batch = false;
  bool evaluation = false;  ///< One forward pass in evaluation mode after the steps.
  bool checkpoint_save = false;
  int steps = 2;
  std::int64_t world = 1;  ///< Ranks; here also the data-parallel degree.
  /// The rank that is shown; none: the binding rank.
  std::optional<std::int64_t> rank;
  std::optional<DdpPlan> ddp;
  std::optional<ZeroPlan> zero;
  std::optional<FsdpPlan> fsdp;
  std::optional<MegatronPlan> megatron;
  std::optional<TitanPlan> titan;
  std::optional<TunePlan> tune;
  std::optional<LoraPlan> lora;
  std::optional<QuantPlan> quant;
  std::optional<GenerationPlan> generation;
  OwnOptions own;  ///< Options of a framework that has no member above.
  AllocatorSettings allocator;
  friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};

/// Whether the layer with this index, counted from 0, is run again in backward.
[[nodiscard]] bool recomputes_layer(const ParallelPlan& plan, std::int64_t layer);

/// Type of the parameters on the device under `precision`.
[[nodiscard]] DType param_dtype(Precision precision);
/// Type that autocast computes in, if the recipe uses autocast.
[[nodiscard]] std::optional<DType> autocast_dtype(Precision precision);

}  // namespace headroom::ir
