#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// The least that a rank holds of the model's parameters. It gives a lower bound of the rank's
/// memory in a few multiplications.
struct HeldParameters {
  /// Bits per parameter, sharded over `ranks` ranks.
  struct Part {
    std::int64_t bits = 0;
    std::int64_t ranks = 1;
    friend bool operator==(const Part&, const Part&) = default;
  };
  Part weights;
  Part gradients;
  Part optimizer;  ///< States and master copies.
  friend bool operator==(const HeldParameters&, const HeldParameters&) = default;
};

/// Everything on every rank, as precision, optimizer and quantisation say. States in unified memory
/// count as 0, because their pages leave the device when it is full.
[[nodiscard]] HeldParameters whole_parameters(const ParallelPlan& plan);

/// The same with every part sharded over `ranks` ranks.
[[nodiscard]] HeldParameters sharded_parameters(const ParallelPlan& plan, std::int64_t ranks);

}  // namespace headroom::ir
