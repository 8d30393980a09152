#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::plan {

/// One choice of a plan. Values are whole numbers; those of words are their positions in
/// `words_of_axis`.
enum class Axis : std::uint8_t {
  kRuntime,
  kGpus,
  kTensor,
  kPipeline,
  kSchedule,      ///< Positions in `ir::titan_schedule_words`.
  kPipelineRuns,  ///< Times that a pipeline of torchtitan's is filled and drained in a step.
  kContext,
  kContextExchange,  ///< Positions in "p2p", "a2a": of several context-parallel ranks.
  kExpert,
  kExpertTensor,
  kDispatcher,  ///< Positions in "alltoall", "hybridep": of a mixture of experts.
  kChunk,       ///< Layers of a model chunk of an interleaved schedule; 0: one chunk a stage.
  kFirstStage,  ///< Layers of the first pipeline stage; 0: as many as the stages between.
  kLastStage,
  kAccountEmbedding,  ///< The embedding counts as a layer where layers are dealt out to stages.
  kAccountLoss,
  kMeshOrder,      ///< Order in which ranks lie in the mesh of a pipeline.
  kPrecision,      ///< Positions in `ir::precision_words`, behind them the recipes in 8 bits.
  kFp8Parameters,  ///< Weights of linear layers are held in 8 bits.
  kOptimizer,      ///< Positions in `ir::optimizer_words`.
  kMicroBatch,
  kSequence,
  kSequenceParallel,
  kAttention,
  kRecompute,
  kRecomputeLayers,
  kRecomputeEvery,  ///< Every so manieth layer runs again (torchtitan).
  kCompiled,        ///< Blocks are compiled (torchtitan).
  kOffloadModules,  ///< Sets of `ir::megatron_offload_modules`: bits in their order.
  kDistributedOptimizer,
  kOverlapGradReduce,
  kOverlapParamGather,
  kAccumulationFusion,
  kLoss,
  kLoaderMask,
  kZero,
  kReshard,
  kReplicas,
  kOffload,
  kOptimizerOffload,  ///< Share of the optimizer on the host, in `kOffloadSteps`.
};
inline constexpr std::size_t kAxes = static_cast<std::size_t>(Axis::kOptimizerOffload) + 1;
/// How many steps of `Axis::kOptimizerOffload` are the whole optimizer.
inline constexpr std::int64_t kOffloadSteps = 4;

/// The value of `Axis::kRuntime` that is torchtitan.
inline constexpr std::int64_t kTitanRuntime = 4;
/// The value of `Axis::kSchedule` that has `kind`.
[[nodiscard]] std::int64_t schedule_with(ir::PipelineKind kind);

struct AxisName {
  Axis axis;
  std::string_view option;  ///< "tp", without dashes.
  std::string_view values;  ///< For the help: "N,N..".
  std::string_view help;
};
[[nodiscard]] std::span<const AxisName> axis_names();
[[nodiscard]] std::string_view option_of(Axis axis);

/// The words of an axis whose values are words: "no", "yes"; empty for numbers.
[[nodiscard]] std::span<const std::string_view> words_of_axis(Axis axis);
/// Positions in `words_of_axis(Axis::kRecompute)`.
enum class RecomputeChoice : std::uint8_t { kNone, kSelective, kUniform, kBlock, kFull };

/// "8", "yes", "selective".
[[nodiscard]] std::string value_text(Axis axis, std::int64_t value);

/// What linear layers are multiplied in under a value of `Axis::kPrecision`.
[[nodiscard]] ir::MegatronFp8 eight_bits_of(std::int64_t precision);
/// The value of `Axis::kPrecision` that has `recipe`, which is one.
[[nodiscard]] std::int64_t precision_with(ir::MegatronFp8 recipe);

/// The modules of a value of `Axis::kOffloadModules`, and the value of modules.
[[nodiscard]] ir::MegatronOffload offload_modules_of(std::int64_t modules);
[[nodiscard]] std::int64_t value_with(const ir::MegatronOffload& modules);

/// Which values an axis may take; none: it is free.
using AxisValues = std::vector<std::int64_t>;

/// Whether an axis keeps one value unless it is given: precision, weights in 8 bits and optimizer
/// change what is trained; the order of the mesh, the experts' dispatcher, the exchange among
/// context-parallel ranks, the modules whose activations go to the host and the optimizer's share
/// there ask for the launcher, a library or the host.
[[nodiscard]] bool is_held(Axis axis);

/// Reads "1,2,4", "2-16", "yes", "selective,block" or "any", which of an axis that is otherwise
/// held is every value: of precision and optimizer every recipe and optimizer whose step is priced,
/// of modules on the host a choice of sets.
///
/// Errors:  kInvalidArgument naming the option, what was given and what it takes.
[[nodiscard]] Result<AxisValues> parse_axis(Axis axis, std::string_view text);

/// What the user says of every axis.
struct Constraints {
  std::array<AxisValues, kAxes> values;
  [[nodiscard]] const AxisValues& of(Axis axis) const {
    return values[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] AxisValues& of(Axis axis) { return values[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] bool allows(Axis axis, std::int64_t value) const;
};

}  // namespace headroom::plan
