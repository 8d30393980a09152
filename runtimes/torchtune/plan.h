#pragma once

#include "model_ir/plan/parallel_plan.h"

namespace headroom::ir {

/// torchtune's own options.
struct TunePlan {
  bool compiled = false;               ///< compile: every layer and the loss of each chunk.
  bool optimizer_in_backward = false;  ///< optimizer_in_bwd: each gradient is applied at once.
  bool offload_activations = false;    ///< enable_activation_offloading: to the host.
  friend bool operator==(const TunePlan&, const TunePlan&) = default;
};

/// torchtune's options of a plan; the defaults if it has none.
[[nodiscard]] inline const TunePlan& tune_of(const ParallelPlan& plan) {
  return plan.own.get<TunePlan>();
}
/// The same to edit, which adds them to a plan that has none.
inline TunePlan& edit_tune(ParallelPlan& plan) {
  return plan.own.edit<TunePlan>();
}
/// Whether the plan has them.
[[nodiscard]] inline bool has_tune(const ParallelPlan& plan) {
  return plan.own.has<TunePlan>();
}

}  // namespace headroom::ir
