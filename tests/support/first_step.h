#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "costmodel/memory/timeline.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/registry.h"
#include "tests/support/accounting_device.h"

namespace headroom::test {

/// Memory of the first training step of a small model, in addition to what loading left.
struct FirstStep {
  std::int64_t kept_by_forward = 0;  ///< Requested bytes.
  std::int64_t backward_peak = 0;    ///< Bytes of blocks.
  std::int64_t after_backward = 0;   ///< Bytes of blocks.
  friend bool operator==(const FirstStep&, const FirstStep&) = default;
  friend std::ostream& operator<<(std::ostream& out, const FirstStep& step) {
    return out << step.kept_by_forward << ", " << step.backward_peak << ", " << step.after_backward;
  }
};

/// A plan with these choices, and the defaults of `ParallelPlan` for the rest.
inline ir::ParallelPlan plan_with(ir::Precision precision,
                                  ir::AttentionKind attention = ir::AttentionKind::kSdpa,
                                  ir::Recompute recompute = ir::Recompute::kNone) {
  ir::ParallelPlan plan;
  plan.precision = precision;
  plan.attention = attention;
  plan.recompute = recompute;
  return plan;
}

/// Trains on two sequences of 300 tokens. `config`: the text of a Hugging Face config.json.
inline FirstStep first_step(const std::string& config, ir::ParallelPlan plan,
                            const DeviceTraits& device = {}) {
  plan = on_accounting_device(std::move(plan));
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 300;
  plan.workload.steps = 1;
  const ir::ModelSpec model = ir::parse_hf_config(config, "test").value();
  const ir::RankProgram program = ir::lower(model, plan, ir::Rank{0}, device).value();
  const cost::MemoryTimeline timeline =
      cost::replay(program, plan.allocator, Bytes{1} * (kGiB * 1024));
  const cost::PhaseMemory& load = timeline.phases.at(0);
  const cost::PhaseMemory& forward = timeline.phases.at(1);
  const cost::PhaseMemory& backward = timeline.phases.at(2);
  return {.kept_by_forward = (forward.requested_after - load.requested_after).value(),
          .backward_peak = (backward.peak_allocated - load.allocated_after).value(),
          .after_backward = (backward.allocated_after - load.allocated_after).value()};
}

}  // namespace headroom::test
