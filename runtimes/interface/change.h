#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// One change to a plan that makes it smaller. Several frameworks share these constants; a
/// framework may have others of its own (`Runtime::changes`).
struct Change {
  /// Order of preference, cheapest first: free changes, changes that cost some speed, changes to
  /// what is trained, changes that move data over PCIe.
  int price = 0;
  std::string_view what;    ///< "recompute every layer in backward"; unique.
  std::string_view cost;    ///< Its price, in words: "one more forward of every layer".
  std::string_view source;  ///< Publication or code that states the cost.
  /// What the change is about, which decides how changes are combined. At most one change of each
  /// kind but the first two is made; kTensor repeatedly.
  enum class Kind : std::uint8_t {
    kFree,      ///< Takes little or no time of a step.
    kSlower,    ///< Computes the same in more time.
    kSharding,  ///< Shards states or parameters over data-parallel ranks.
    kTensor,    ///< Shards the layers themselves.
    kHost,      ///< Keeps states or parameters on the host.
    kTraining,  ///< Trains something else.
  };
  Kind kind = Kind::kFree;
  friend constexpr bool operator==(const Change&, const Change&) = default;
  friend constexpr auto operator<=>(const Change&, const Change&) = default;

  static const Change kExpandableSegments;
  static const Change kFusedOptimizer;
  static const Change kSdpaAttention;
  static const Change kDropLogits;
  static const Change kSequenceParallel;
  static const Change kZero1;
  static const Change kZero2;
  static const Change kMixedPrecision;
  static const Change kPureBf16;
  static const Change kUnpreparedWeights;
  static const Change kQuantisedOnHost;
  static const Change kFusedLoss;
  static const Change kFusedKernels;
  static const Change kSmallerMicroBatch;  ///< Halves it; accumulation keeps the step's batch.
  static const Change kEightBitOptimizer;
  static const Change kPagedOptimizer;
  static const Change kSelectiveRecompute;
  static const Change kCheckpointing;
  static const Change kMoreTensorParallel;  ///< Doubles the ranks; accumulation keeps the batch.
  static const Change kZero3;
  static const Change kOffloadOptimizer;
  static const Change kOffloadShards;
  static const Change kLora;
  static const Change kQlora;
  static const Change kOffloadParameters;
};

inline constexpr Change Change::kExpandableSegments{
    100, "let the allocator grow its segments", "practically none",
    "pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, Note [Expandable Segments]"};
inline constexpr Change Change::kFusedOptimizer{110, "fused optimizer, no temporaries in its step",
                                                "none: fewer kernels",
                                                "pytorch/pytorch torch/optim/adam.py, _fused_adam"};
inline constexpr Change Change::kSdpaAttention{120, "attention that keeps no S x S scores",
                                               "none: faster",
                                               "Dao et al. 2022, FlashAttention, arXiv:2205.14135"};
inline constexpr Change Change::kDropLogits{
    130, "free the model's output before backward", "none",
    "pytorch/pytorch: a tensor lives as long as a name refers to it"};
inline constexpr Change Change::kSequenceParallel{
    140, "shard norms and residuals over tensor-parallel ranks", "none: as much communication",
    "Korthikanti et al. 2022, Reducing Activation Recomputation, arXiv:2205.05198"};
inline constexpr Change Change::kZero1{
    150, "shard the optimizer states (ZeRO-1)", "none: as much communication as DDP",
    "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 7", Kind::kSharding};
inline constexpr Change Change::kZero2{
    160, "shard optimizer states and gradients (ZeRO-2)", "none: as much communication as DDP",
    "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 7.2.1", Kind::kSharding};
inline constexpr Change Change::kMixedPrecision{
    170, "mixed precision",
    "products are computed in 16 bits, with loss scaling in fp16; faster on tensor cores",
    "Micikevicius et al. 2018, Mixed Precision Training, arXiv:1710.03740"};
inline constexpr Change Change::kPureBf16{
    180, "parameters, gradients and states in bf16",
    "bf16 rounds small updates away, though a step is faster",
    "Micikevicius et al. 2018, arXiv:1710.03740, section 3.1 (why masters exist)"};
inline constexpr Change Change::kFusedLoss{
    190, "loss fused with the output layer (Liger)",
    "the fused loss computes the logits in chunks, which takes little time",
    "Hsu et al. 2024, Liger Kernel, arXiv:2410.10989, section 3.2"};
inline constexpr Change Change::kUnpreparedWeights{
    185, "16-bit norms and embeddings beside quantised weights, without k-bit preparation",
    "norms and logits are computed in 16 bits",
    "huggingface/peft src/peft/utils/other.py, prepare_model_for_kbit_training"};
inline constexpr Change Change::kQuantisedOnHost{
    187, "quantised weights on the host until FSDP1 shards them (transformers 4)",
    "none in a step; it needs transformers 4",
    "huggingface/transformers 4.57.1 src/transformers/modeling_utils.py, "
    "_load_state_dict_into_meta_model"};
inline constexpr Change Change::kFusedKernels{
    195, "fused norms, rotary embedding and MLPs (Liger)", "none: fewer kernels",
    "Hsu et al. 2024, Liger Kernel, arXiv:2410.10989, section 3.1"};
inline constexpr Change Change::kSmallerMicroBatch{200, "smaller micro-batches, accumulated",
                                                   "smaller matrices reach less of the GPU's peak",
                                                   "same number of FLOPs per step", Kind::kSlower};
inline constexpr Change Change::kEightBitOptimizer{
    210, "optimizer states in 8 bits", "the 8-bit optimizer quantises its states in every step",
    "Dettmers et al. 2022, 8-bit Optimizers, arXiv:2110.02861", Kind::kSlower};
inline constexpr Change Change::kPagedOptimizer{
    215, "8-bit optimizer states in pages that move to the host when memory is short",
    "the paged optimizer takes little time unless its pages move over PCIe, then in every step",
    "Dettmers et al. 2023, QLoRA, arXiv:2305.14314, section 3 (Paged Optimizers)", Kind::kSlower};
inline constexpr Change Change::kSelectiveRecompute{
    220, "recompute attention, norms and MLPs in backward",
    "recomputation is one more forward, without the projections of attention",
    "Korthikanti et al. 2022, arXiv:2205.05198, section 5", Kind::kSlower};
inline constexpr Change Change::kCheckpointing{
    230, "recompute every layer in backward",
    "recomputation is one more forward, up to +33 % FLOPs",
    "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174",
    Kind::kSlower};
inline constexpr Change Change::kMoreTensorParallel{
    240, "twice the tensor-parallel ranks",
    "tensor parallelism communicates more in every layer and has smaller matrices",
    "Shoeybi et al. 2019, Megatron-LM, arXiv:1909.08053, section 3", Kind::kTensor};
inline constexpr Change Change::kZero3{
    250, "shard parameters as well (ZeRO-3)", "ZeRO-3 communicates 1.5 times as much as DDP",
    "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 7.2.2", Kind::kSharding};
inline constexpr Change Change::kOffloadOptimizer{
    260, "optimizer and its states on the CPU",
    "gradients and parameters move over PCIe, and the CPU runs the optimizer step",
    "Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840", Kind::kHost};
inline constexpr Change Change::kOffloadShards{
    265, "shards, gradients and optimizer on the CPU",
    "shards and gradients move over PCIe, and the CPU runs the optimizer step",
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_api.py, CPUOffloadPolicy",
    Kind::kHost};
inline constexpr Change Change::kLora{270, "train adapters only (LoRA, r=16)",
                                      "it is another training: LoRA leaves the weights as they are",
                                      "Hu et al. 2021, LoRA, arXiv:2106.09685", Kind::kTraining};
inline constexpr Change Change::kQlora{
    280, "train adapters on 4-bit weights (QLoRA), recomputing",
    "it is another training, with one more forward and dequantisation",
    "Dettmers et al. 2023, QLoRA, arXiv:2305.14314", Kind::kTraining};
inline constexpr Change Change::kOffloadParameters{
    290, "parameters and optimizer on the CPU (ZeRO-3)",
    "all parameters move over PCIe in forward and backward",
    "Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857", Kind::kHost};

/// "recompute every layer in backward".
[[nodiscard]] inline std::string_view describe(Change change) {
  return change.what;
}
/// The price of a change, in words: "one more forward of every layer".
[[nodiscard]] inline std::string_view cost_of(Change change) {
  return change.cost;
}
/// The publication or code that states the cost.
[[nodiscard]] inline std::string_view source_of(Change change) {
  return change.source;
}

/// The properties of a device that decide whether a change can be made on it.
struct DeviceTypes {
  bool bf16 = true;  ///< The device computes in bf16.
};

/// A change as a framework makes it. `make` returns the changed plan. It returns `plan` itself or
/// nothing if the change is already made, does not apply or is beyond the device.
struct OwnChange {
  Change change;
  std::optional<ParallelPlan> (*make)(const ParallelPlan& plan, const DeviceTypes& device);
};

/// Changes that PyTorch programs share, as `OwnChange::make`.
namespace changes {

[[nodiscard]] std::optional<ParallelPlan> expandable_segments(const ParallelPlan& plan,
                                                              const DeviceTypes& device);
[[nodiscard]] std::optional<ParallelPlan> fused_optimizer(const ParallelPlan& plan,
                                                          const DeviceTypes& device);
[[nodiscard]] std::optional<ParallelPlan> sdpa_attention(const ParallelPlan& plan,
                                                         const DeviceTypes& device);
[[nodiscard]] std::optional<ParallelPlan> drop_logits(const ParallelPlan& plan,
                                                      const DeviceTypes& device);
/// Applies to fp32, autocast and fp32 masters.
[[nodiscard]] std::optional<ParallelPlan> pure_bf16(const ParallelPlan& plan,
                                                    const DeviceTypes& device);
[[nodiscard]] std::optional<ParallelPlan> smaller_micro_batch(const ParallelPlan& plan,
                                                              const DeviceTypes& device);
[[nodiscard]] std::optional<ParallelPlan> eight_bit_optimizer(const ParallelPlan& plan,
                                                              const DeviceTypes& device);
/// The same in unified memory.
[[nodiscard]] std::optional<ParallelPlan> paged_optimizer(const ParallelPlan& plan,
                                                          const DeviceTypes& device);
[[nodiscard]] std::optional<ParallelPlan> checkpointing(const ParallelPlan& plan,
                                                        const DeviceTypes& device);

}  // namespace changes

/// The changes of a framework that has no list of its own. They concern the allocator and the
/// micro-batch.
[[nodiscard]] std::span<const OwnChange> usual_changes();

/// The decision tree of a plan on `world` GPUs. Each step is applied on top of those before it:
/// precision, recomputation, micro-batch; then sharding on several GPUs, or smaller states and
/// adapters on one; then offload to the host.
[[nodiscard]] std::vector<Change> usual_remedy_order(const ParallelPlan& plan);

/// What limits the speed of a step.
enum class Bottleneck : std::uint8_t {
  kCommunication,  ///< All-gathers and reductions that no kernel overlaps.
  kSmallBatch,     ///< Kernels too short for the host to launch them in time.
  kBubble,         ///< Stages of a pipeline that wait for each other.
  kOffload,        ///< Copies to the host and the work done there.
  kRecomputation,  ///< Forward kernels that run once more for the backward pass.
  kKernels,        ///< Kernels that others can replace: attention, norms, casts, the optimizer.
};
/// "exposed communication", ...
[[nodiscard]] std::string_view describe(Bottleneck bottleneck);

}  // namespace headroom::ir
