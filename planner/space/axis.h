#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/pipeline_schedule.h"

namespace headroom::plan {

/// The values that an axis may take. Empty: the axis is free.
using AxisValues = std::vector<std::int64_t>;
using AxisWords = std::span<const std::string_view>;

/// A property of the question without which all values of an axis give the same plans.
enum class AxisNeeds : std::uint8_t { kNothing, kSeveralGpus, kExperts };

/// The properties of an axis, all in one place.
struct AxisTraits {
  int order = 0;                   ///< Place in help and in answers; unique.
  std::string_view option;         ///< "tp", without dashes; unique.
  std::string_view values;         ///< For the help: "N,N..".
  std::string_view help;           ///< What it is. `help_of` adds the frameworks that have it.
  std::string_view usual = "any";  ///< For the help: the value if it is not given.
  /// The words of an axis whose values are words, such as "no" and "yes". Null: values are numbers.
  AxisWords (*words)() = nullptr;
  /// Set for a held axis, which keeps one value unless the user names the axis: the words that
  /// "any" stands for. Such axes change what is trained, or need a library, the launcher or the
  /// host. Null: the axis is free.
  AxisWords (*any)() = nullptr;
  AxisNeeds needs = AxisNeeds::kNothing;
  /// The value of plans whose framework does not have the axis.
  std::int64_t absent = 0;
  /// Whether naming the axis requires a framework that has it, whatever the value.
  bool demanded = false;
  /// Whether some framework chooses the value within a cell. Then each value must be tried to find
  /// out which ones the space has.
  bool within_cells = false;
  /// Parses one part between commas, for words that can be combined. Null: a part is a word or a
  /// range.
  std::optional<AxisValues> (*parse)(std::string_view part) = nullptr;
  /// What `parse` accepts: "none, or modules joined by + out of ...".
  std::string (*expected)() = nullptr;
};

/// One choice of a plan in the search. Values are whole numbers; the values of words are their
/// positions. The constants are axes that several frameworks have. A framework may have others of
/// its own (`FrameworkSearch::axes`).
class Axis {
 public:
  /// Keeps a reference to `traits`, which must be a constant.
  explicit constexpr Axis(const AxisTraits& traits) : traits_(&traits) {}
  constexpr const AxisTraits* operator->() const { return traits_; }
  friend constexpr bool operator==(Axis a, Axis b) { return a.traits_ == b.traits_; }

  static const Axis kRuntime;  ///< Positions in `ir::runtime_words`.
  static const Axis kGpus;
  static const Axis kTensor;
  static const Axis kPipeline;
  static const Axis kSchedule;  ///< Positions in `ir::schedule_words`.
  static const Axis kContext;
  static const Axis kExpert;
  static const Axis kExpertTensor;
  static const Axis kChunk;  ///< Layers of a chunk of an interleaved schedule; 0: one chunk.
  static const Axis kAccountEmbedding;  ///< Counts the embedding as a layer of the first stage.
  static const Axis kAccountLoss;       ///< Counts the loss as a layer of the last stage.
  static const Axis kPrecision;         ///< `ir::precision_words`, then the 8-bit recipes.
  static const Axis kFrozenWeights;     ///< Positions in `kFrozenBits`.
  static const Axis kOptimizer;         ///< Positions in `ir::optimizer_words`.
  static const Axis kMicroBatch;
  static const Axis kSequence;
  static const Axis kSequenceParallel;
  static const Axis kAttention;
  static const Axis kRecompute;
  static const Axis kRecomputeEvery;
  static const Axis kCompiled;
  static const Axis kLoss;
  static const Axis kLiger;
  static const Axis kReshard;
  static const Axis kReplicas;
  static const Axis kOffload;
  static const Axis kOptimizerOffload;  ///< Share of the optimizer on the host, in `kOffloadSteps`.

 private:
  const AxisTraits* traits_;
};

/// A value of an axis, for which an explanation is useful or of which there is no plan.
struct Alternative {
  Axis axis;
  std::int64_t value;
};

/// The value of `Axis::kOptimizerOffload` that stands for the whole optimizer.
inline constexpr std::int64_t kOffloadSteps = 4;

/// Bits of the frozen weights beside adapters, by the value of `Axis::kFrozenWeights`.
inline constexpr std::array<int, 3> kFrozenBits = {16, 8, 4};

/// Values of `Axis::kRecompute`.
enum class RecomputeChoice : std::uint8_t { kNone, kSelective, kUniform, kBlock, kFull };
/// Values of `Axis::kAttention`: two of Megatron-Core's, then those of `ir::AttentionKind` in their
/// order. This is the first of the latter.
inline constexpr std::int64_t kFirstTorchAttention = 2;
/// Values of `Axis::kLoss`: those of `ir::MegatronCrossEntropy`, then those of `ir::LossKind`, each
/// in their order. This is the first of the latter.
inline constexpr std::int64_t kFirstTorchLoss = 3;
/// Values of `Axis::kOffload`.
enum class OffloadChoice : std::uint8_t { kNone, kOptimizer, kAll };

/// The value of `Axis::kSchedule` that stands for `kind`.
[[nodiscard]] std::int64_t schedule_with(ir::PipelineKind kind);
/// The number of the 8-bit recipe that a value of `Axis::kPrecision` stands for, from 1; 0: none.
[[nodiscard]] int eight_bit_recipe(std::int64_t precision);
/// The value of `Axis::kPrecision` that stands for the 8-bit recipe number `recipe`.
[[nodiscard]] std::int64_t precision_with_recipe(int recipe);
/// One value for precisions that mean the same. Fp32 weights under autocast are the form in which
/// PyTorch has fp32 masters: autocast-bf16 is bf16-master.
[[nodiscard]] std::int64_t canonical(Axis axis, std::int64_t value);
/// The value of `Axis::kPrecision` that stands for `precision`.
[[nodiscard]] std::int64_t precision_value(ir::Precision precision);

/// The value of `Axis::kPrecision` whose word is that of `precision`.
[[nodiscard]] std::int64_t precision_position(ir::Precision precision);

/// Whether the axis keeps one value unless the user names it.
[[nodiscard]] inline bool is_held(Axis axis) {
  return axis->any != nullptr;
}
/// The words of an axis; empty if its values are numbers.
[[nodiscard]] inline AxisWords words_of_axis(Axis axis) {
  return axis->words == nullptr ? AxisWords() : axis->words();
}
[[nodiscard]] inline std::string_view option_of(Axis axis) {
  return axis->option;
}
/// A value as the user types it: "8", "yes", "selective".
[[nodiscard]] std::string value_text(Axis axis, std::int64_t value);

/// Parses "1,2,4", "2-16", "yes", "selective,block" or "any".
///
/// Errors:  kInvalidArgument with the option, the given text and what the option accepts.
[[nodiscard]] Result<AxisValues> parse_axis(Axis axis, std::string_view text);

/// The values that the user allows for each axis.
class Constraints {
 public:
  /// The allowed values; empty: all.
  [[nodiscard]] const AxisValues& of(Axis axis) const;
  [[nodiscard]] AxisValues& of(Axis axis) { return said_[axis->order]; }
  [[nodiscard]] bool allows(Axis axis, std::int64_t value) const;

 private:
  std::map<int, AxisValues> said_;  ///< By `AxisTraits::order`.
};

// -- The axes that several frameworks have. ------------------------------------------------------

namespace axis_words {
[[nodiscard]] AxisWords runtimes();
[[nodiscard]] AxisWords schedules();
[[nodiscard]] AxisWords precisions();
[[nodiscard]] AxisWords any_precision();
[[nodiscard]] AxisWords frozen_weights();
[[nodiscard]] AxisWords optimizers();
[[nodiscard]] AxisWords any_optimizer();
[[nodiscard]] AxisWords switches();
[[nodiscard]] AxisWords attentions();
[[nodiscard]] AxisWords recomputations();
[[nodiscard]] AxisWords losses();
[[nodiscard]] AxisWords offloads();
[[nodiscard]] AxisWords offload_shares();
}  // namespace axis_words

inline constexpr AxisTraits kRuntimeTraits{.order = 10,
                                           .option = "runtime",
                                           .values = "NAME,..",
                                           .help = "frameworks to search",
                                           .words = axis_words::runtimes};
inline constexpr AxisTraits kGpusTraits{
    .order = 20,
    .option = "gpus",
    .values = "N,..",
    .help = "number of GPUs; among several numbers the objective chooses",
    .usual = "1"};
inline constexpr AxisTraits kTensorTraits{
    .order = 30, .option = "tp", .values = "N,..", .help = "tensor-parallel degree", .absent = 1};
inline constexpr AxisTraits kPipelineTraits{
    .order = 40, .option = "pp", .values = "N,..", .help = "pipeline-parallel degree", .absent = 1};
inline constexpr AxisTraits kScheduleTraits{
    .order = 50,
    .option = "schedule",
    .values = "KIND,..",
    .help = "pipeline schedule",
    .words = axis_words::schedules,
    .absent = 1  // 1f1b
};
inline constexpr AxisTraits kContextTraits{
    .order = 70, .option = "cp", .values = "N,..", .help = "context-parallel degree", .absent = 1};
inline constexpr AxisTraits kExpertTraits{
    .order = 90, .option = "ep", .values = "N,..", .help = "expert-parallel degree", .absent = 1};
inline constexpr AxisTraits kExpertTensorTraits{.order = 100,
                                                .option = "etp",
                                                .values = "N,..",
                                                .help = "tensor-parallel degree of the experts",
                                                .absent = 1};
inline constexpr AxisTraits kChunkTraits{.order = 120,
                                         .option = "layers-per-virtual-stage",
                                         .values = "N,..",
                                         .help = "layers per virtual pipeline stage"};
inline constexpr AxisTraits kAccountEmbeddingTraits{
    .order = 150,
    .option = "account-for-embedding",
    .values = "SWITCH",
    .help = "the embedding counts as a layer of the first stage",
    .words = axis_words::switches};
inline constexpr AxisTraits kAccountLossTraits{
    .order = 160,
    .option = "account-for-loss",
    .values = "SWITCH",
    .help = "the loss counts as a layer of the last stage",
    .words = axis_words::switches};
inline constexpr AxisTraits kPrecisionTraits{
    .order = 180,
    .option = "precision",
    .values = "RECIPE,..",
    .help =
        "number formats. bf16-master or fp16-master: arithmetic in 16 bits, with fp32 master "
        "weights and optimizer states as each framework keeps them. bf16: what headroom fit calls "
        "bf16, weights and states in 16 bits where the framework can store them so, otherwise "
        "bf16-master; also tried if nothing fits with fp32 master weights. bf16-autocast: bf16 "
        "weights under autocast. fp32: everything in 32 bits",
    .usual = "bf16-master, bf16 with adapters, fp16 on GPUs without bf16",
    .words = axis_words::precisions,
    .any = axis_words::any_precision};
inline constexpr AxisTraits kFrozenWeightsTraits{
    .order = 195,
    .option = "frozen-weights",
    .values = "BITS,..",
    .help =
        "with --lora or --qlora: how frozen weights are stored. 8-bit and 4-bit are "
        "bitsandbytes' LLM.int8() and NF4",
    .usual = "16-bit with --lora, 4-bit with --qlora",
    .words = axis_words::frozen_weights,
    .any = axis_words::frozen_weights};
inline constexpr AxisTraits kOptimizerTraits{.order = 200,
                                             .option = "optimizer",
                                             .values = "NAME,..",
                                             .help =
                                                 "optimizer: adamw, adamw-fused, adamw-8bit, sgd, "
                                                 "lion and the others that headroom fit takes",
                                             .usual = "adamw-fused, with Megatron-Core adamw",
                                             .words = axis_words::optimizers,
                                             .any = axis_words::any_optimizer};
inline constexpr AxisTraits kMicroBatchTraits{.order = 210,
                                              .option = "micro-batch",
                                              .values = "B,..",
                                              .help = "sequences per forward pass on each GPU",
                                              .absent = 1};
inline constexpr AxisTraits kSequenceTraits{
    .order = 220,
    .option = "seq",
    .values = "S,..",
    .help = "tokens per sequence",
    .usual = "2048, or the model's maximum if that is less"};
inline constexpr AxisTraits kSequenceParallelTraits{.order = 230,
                                                    .option = "sequence-parallel",
                                                    .values = "SWITCH",
                                                    .help = "sequence parallelism: yes, no or any",
                                                    .words = axis_words::switches};
inline constexpr AxisTraits kAttentionTraits{.order = 240,
                                             .option = "attention",
                                             .values = "KIND,..",
                                             .help = "implementation of attention",
                                             .words = axis_words::attentions,
                                             .absent = kFirstTorchAttention};
inline constexpr AxisTraits kRecomputeTraits{.order = 250,
                                             .option = "recompute",
                                             .values = "WHICH,..",
                                             .help = "activation checkpointing",
                                             .words = axis_words::recomputations,
                                             .within_cells = true};
inline constexpr AxisTraits kRecomputeEveryTraits{
    .order = 270,
    .option = "recompute-every",
    .values = "N,..",
    .help = "with --recompute full: recompute every Nth layer",
    .absent = 1};
inline constexpr AxisTraits kCompiledTraits{.order = 280,
                                            .option = "compile",
                                            .values = "SWITCH",
                                            .help = "torch.compile of the blocks: yes, no or any",
                                            .words = axis_words::switches};
inline constexpr AxisTraits kLossTraits{.order = 340,
                                        .option = "loss",
                                        .values = "KIND,..",
                                        .help = "implementation of the loss",
                                        .words = axis_words::losses,
                                        .absent = kFirstTorchLoss,
                                        .within_cells = true};
inline constexpr AxisTraits kLigerTraits{
    .order = 345,
    .option = "liger",
    .values = "SWITCH",
    .help = "Liger's kernels for norms, gated MLPs and rotary embeddings: yes, no or any",
    .usual = "no",
    .words = axis_words::switches,
    .any = axis_words::switches};
inline constexpr AxisTraits kReshardTraits{
    .order = 370,
    .option = "reshard",
    .values = "SWITCH",
    .help = "parameters are sharded again after the forward pass",
    .words = axis_words::switches,
    .demanded = true};
inline constexpr AxisTraits kReplicasTraits{
    .order = 380,
    .option = "replicas",
    .values = "N,..",
    .help = "hybrid sharding: number of replicas of the sharded model",
    .absent = 1,
    .demanded = true};
inline constexpr AxisTraits kOffloadTraits{.order = 390,
                                           .option = "offload",
                                           .values = "WHAT,..",
                                           .help = "what is kept in host memory",
                                           .words = axis_words::offloads};
inline constexpr AxisTraits kOptimizerOffloadTraits{
    .order = 400,
    .option = "optimizer-offload",
    .values = "SHARE,..",
    .help = "share of the optimizer that is in host memory",
    .usual = "0",
    .words = axis_words::offload_shares,
    .any = axis_words::offload_shares,
    .within_cells = true};

inline constexpr Axis Axis::kRuntime{kRuntimeTraits};
inline constexpr Axis Axis::kGpus{kGpusTraits};
inline constexpr Axis Axis::kTensor{kTensorTraits};
inline constexpr Axis Axis::kPipeline{kPipelineTraits};
inline constexpr Axis Axis::kSchedule{kScheduleTraits};
inline constexpr Axis Axis::kContext{kContextTraits};
inline constexpr Axis Axis::kExpert{kExpertTraits};
inline constexpr Axis Axis::kExpertTensor{kExpertTensorTraits};
inline constexpr Axis Axis::kChunk{kChunkTraits};
inline constexpr Axis Axis::kAccountEmbedding{kAccountEmbeddingTraits};
inline constexpr Axis Axis::kAccountLoss{kAccountLossTraits};
inline constexpr Axis Axis::kPrecision{kPrecisionTraits};
inline constexpr Axis Axis::kFrozenWeights{kFrozenWeightsTraits};
inline constexpr Axis Axis::kOptimizer{kOptimizerTraits};
inline constexpr Axis Axis::kMicroBatch{kMicroBatchTraits};
inline constexpr Axis Axis::kSequence{kSequenceTraits};
inline constexpr Axis Axis::kSequenceParallel{kSequenceParallelTraits};
inline constexpr Axis Axis::kAttention{kAttentionTraits};
inline constexpr Axis Axis::kRecompute{kRecomputeTraits};
inline constexpr Axis Axis::kRecomputeEvery{kRecomputeEveryTraits};
inline constexpr Axis Axis::kCompiled{kCompiledTraits};
inline constexpr Axis Axis::kLoss{kLossTraits};
inline constexpr Axis Axis::kLiger{kLigerTraits};
inline constexpr Axis Axis::kReshard{kReshardTraits};
inline constexpr Axis Axis::kReplicas{kReplicasTraits};
inline constexpr Axis Axis::kOffload{kOffloadTraits};
inline constexpr Axis Axis::kOptimizerOffload{kOptimizerOffloadTraits};

}  // namespace headroom::plan
