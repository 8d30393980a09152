#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/units.h"
#include "planner/placement/placement.h"

namespace headroom::plan {

/// The action that a `LayerOption` of a stage stands for.
struct LayerAction {
  enum class Kind : std::uint8_t {
    kKeep,
    kModules,  ///< `modules` run again.
    kFull,     ///< The layer runs again.
    kCopy,     ///< Everything is copied to the host and back.
  };
  Kind kind = Kind::kKeep;
  std::vector<std::string> modules{};  ///< Names as in the framework's options.
};

/// A placement that follows a simple rule, for comparison with the optimum.
struct PlacementRule {
  enum class Kind : std::uint8_t {
    kPlan,        ///< The plan's own recomputation.
    kModules,     ///< `modules` in every layer: the fastest set that fits.
    kUniform,     ///< Every layer, in groups of `number`.
    kSquareRoot,  ///< The same in groups of about the square root of the layers.
    kBlock,       ///< The first `number` layers of a chunk: the fewest that fit.
    kEvery,       ///< Every `number`-th layer, as seldom as fits. No option does it.
    /// The best order of whole layers, some of which run more than once (`optimal_chain`). No
    /// option of a framework does this. Only for stages that keep one pass.
    kChain,
  };
  Kind kind = Kind::kPlan;
  std::int64_t number = 1;
  std::vector<std::string> modules{};
  double seconds = 0;  ///< Recomputation time of a micro-batch in a chunk, in seconds.
  Bytes peak{};        ///< Peak while micro-batches run.
  bool fits = false;
};

/// The possible treatments of the activations of one pipeline stage of a plan.
struct StagePlacement {
  std::int64_t stage = 0;
  PlacementQuestion question;        ///< For a model chunk; kinds in the order of the layers.
  std::vector<LayerAction> actions;  ///< The actions of the options, the same for each kind.
  Bytes everything;                  ///< Peak while micro-batches run if everything is kept.
  std::optional<Placement> best;
  std::optional<Placement> best_without_copies;
  std::vector<PlacementRule> rules;
};

}  // namespace headroom::plan
