#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/phase_name.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::torch {

/// Marks the events of a scope as one phase.
class PhaseScope {
 public:
  PhaseScope(Eager& eager, PhaseKind kind, StepPosition at = {}) : eager_(eager) {
    eager_.begin_phase({.kind = kind, .at = at});
  }
  ~PhaseScope() { eager_.end_phase(); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Eager& eager_;
};

/// Where micro-batch `number` of a step lies; the only one of its step has no number.
[[nodiscard]] inline StepPosition micro_batch_at(const ParallelPlan& plan, int step,
                                                 std::int64_t number) {
  return {.step = step, .micro_batch = plan.workload.accumulation > 1 ? number : 0};
}

}  // namespace headroom::ir::torch
