#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/units.h"
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
  std::vector<std::string> modules{};  ///< As the framework's options name them.
};

/// A way of recomputing that is a rule, beside the optimum.
struct PlacementRule {
  enum class Kind : std::uint8_t {
    kPlan,        ///< As the plan says.
    kModules,     ///< `modules` of every layer: the quickest set that fits.
    kUniform,     ///< Every layer, in groups of `number`.
    kSquareRoot,  ///< The same in groups of about the square root of the layers.
    kBlock,       ///< The first `number` layers of a chunk: the fewest that fit.
    kEvery,       ///< Every `number`-th layer, as seldom as fits; no option says it.
    kChain,       ///< Whole layers in the best order of all, some more than once (`optimal_chain`);
                  ///< no option says it. Only where one pass is kept.
  };
  Kind kind = Kind::kPlan;
  std::int64_t number = 1;
  std::vector<std::string> modules{};
  double seconds = 0;  ///< Of a micro-batch through a chunk, above what runs once.
  Bytes peak{};        ///< While micro-batches run.
  bool fits = false;
};

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

}  // namespace headroom::plan
