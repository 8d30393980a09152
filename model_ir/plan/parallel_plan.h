#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/plan/mesh.h"
#include "model_ir/plan/own_options.h"
#include "model_ir/plan/workload.h"
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

/// Everything about a run that can be chosen: what is run (`workload`), how the ranks are divided
/// (`mesh`), what every framework understands, and the framework's own options (`own`). Plain data;
/// its JSON form is `runtimes/plan_json.h`.
struct ParallelPlan {
  std::string runtime = "transformers";  ///< The framework's name in `runtimes/registry.h`.
  std::string runtime_version;           ///< Empty: the newest modelled version.
  Precision precision = Precision::kBf16;
  OptimizerPlan optimizer;
  AttentionKind attention = AttentionKind::kSdpa;
  LossKind loss = LossKind::kHf;
  bool liger = false;  ///< Liger's RMSNorm, SwiGLU or GeGLU and rotary kernels.
  Workload workload;
  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_every = 1;  ///< Every k-th layer.
  /// Only the first N layers, whose activations live longest; 0: all of them. Transformers' layers
  /// alone can be told so one by one.
  std::int64_t recompute_first = 0;
  std::optional<double> clip_norm;
  std::int64_t world = 1;  ///< Ranks of the run.
  Mesh mesh;               ///< How they are divided.
  /// The rank that is shown; none: the binding rank.
  std::optional<std::int64_t> rank;
  std::optional<LoraPlan> lora;
  std::optional<QuantPlan> quant;
  OwnOptions own;  ///< The frameworks' own options, in the types of their folders.
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
