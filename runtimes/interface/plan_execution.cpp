#include "runtimes/interface/plan_execution.h"

#include <cstddef>
#include <cstdint>

namespace headroom::ir {

PlanExecution common_execution(const ModelSpec& model, const ParallelPlan& plan) {
  PlanExecution execution;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    execution.layers.push_back({.layer = recomputes_layer(plan, static_cast<std::int64_t>(layer))});
  }
  return execution;
}

void beyond_if(PlanExecution& execution, bool asked, const char* what) {
  if (asked) {
    execution.beyond.emplace_back(what);
  }
}

}  // namespace headroom::ir
