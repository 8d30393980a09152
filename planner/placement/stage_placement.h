#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/placement/placement.h"

namespace headroom::plan {

/// What a `LayerOption` of a stage stands for.
struct LayerAction {
  enum class Kind : std::uint8_t {
    kKeep,
    kModules,  ///< `modules` run again.
    kFull,     ///< The layer runs again.
    kCopy,     ///< Everything goes to the host and comes back.
  };
  Kind kind = Kind::kKeep;
  ir::MegatronModules modules{};
};

/// A way of recomputing that is a rule, beside the optimum.
struct PlacementRule {
  enum class Kind : std::uint8_t {
    kPlan,        ///< As the plan says.
    kModules,     ///< `modules` of every layer: the quickest set that fits.
    kUniform,     ///< Every layer, in groups of `number`.
    kSquareRoot,  ///< The same in groups of about the square root of the layers.
    kBlock,       ///< The first `number` layers of a chunk: the fewest that fit.
    kEvery,       ///< Every `number`-th layer, as seldom as fits; no switch of Megatron's says it.
    kChain,       ///< Whole layers in the best order of all, some more than once (`optimal_chain`);
                  ///< no switch says it. Only where one pass is kept.
  };
  Kind kind = Kind::kPlan;
  std::int64_t number = 1;
  ir::MegatronModules modules{};
  double seconds = 0;  ///< Of a micro-batch through a chunk, above what runs once.
  Bytes peak{};        ///< While micro-batches run.
  bool fits = false;
};

/// The modules that run again, as the framework's options name them.
[[nodiscard]] std::vector<std::string> module_names(const LayerAction& action);
[[nodiscard]] std::vector<std::string> module_names(const PlacementRule& rule);

/// What one pipeline stage of a plan could do with its activations.
struct StagePlacement {
  std::int64_t stage = 0;
  PlacementQuestion question;        ///< Of a model chunk; kinds in the order of the layers.
  std::vector<LayerAction> actions;  ///< Of the options, the same for each kind.
  Bytes everything;                  ///< Peak while micro-batches run when all is kept.
  std::optional<Placement> best;
  std::optional<Placement> best_without_copies;
  std::vector<PlacementRule> rules;
};

/// The placements of a Megatron plan's stages: of the first, and of each other one that cannot keep
/// everything. Nothing for the other runtimes, for stages whose chunks differ, and for plans
/// that send modules' activations to the host already.
///
/// Model:   what a layer keeps of a pass is `kept_bytes`; peaks while micro-batches run are read
///          off the stage's whole program with each option on all layers, and what they have above
///          the passes' is the option's `fixed`. Times are those of the closed form (`block_times`,
///          `pipeline_parts`); copies go at the rate that the machine's link to the host reaches.
///          A layer that is copied keeps nothing on the device; where layers are, one is under way
///          to the host or back and one is in use.
/// Ignores: several GPUs on one link to the host; the order of the layers, so that a rule, whose
///          peak is read off its own program, may fit where its counts in any order do not.
/// Errors:  those of the lowering.
[[nodiscard]] Result<std::vector<StagePlacement>> stage_placements(const ir::ModelSpec& model,
                                                                   const ir::ParallelPlan& plan,
                                                                   const cost::DeviceSpec& device,
                                                                   const cost::Machine& machine,
                                                                   Bytes capacity);

}  // namespace headroom::plan
