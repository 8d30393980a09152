#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// What a rank holds of the model's parameters, at least: a few multiplications give a lower bound
/// of its memory.
struct HeldParameters {
  /// Bits for each parameter, spread over so many ranks.
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

/// All of it on every rank, as precision, optimizer and quantisation say. States in unified memory
/// count as nothing: their pages leave the device when it is full.
[[nodiscard]] HeldParameters whole_parameters(const ParallelPlan& plan);

/// The same, with every part spread over the ranks of a shard of FSDP; nothing where it keeps them
/// on the host.
[[nodiscard]] HeldParameters sharded_parameters(const ParallelPlan& plan);

}  // namespace headroom::ir
