#pragma once

#include <string>

#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::test {

/// The value that `check_plan` refuses; empty if it accepts the plan.
[[nodiscard]] inline std::string refused_by_check(const ir::ModelSpec& model,
                                                  const ir::ParallelPlan& plan) {
  const Status status = ir::check_plan(model, plan);
  return status ? "" : status.error().got;
}

/// The key that `lower` refuses; empty if it lowers the plan.
[[nodiscard]] inline std::string refused_by_lowering(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan,
                                                     const DeviceTraits& device = {}) {
  const auto program = ir::lower(model, plan, ir::Rank{0}, device);
  return program ? "" : program.error().key;
}

}  // namespace headroom::test
