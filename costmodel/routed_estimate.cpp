#include "costmodel/routed_estimate.h"

#include <utility>

#include "costmodel/expert_load.h"

namespace headroom::cost {

Result<StepEstimate> estimate_with_load(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                        double load, const DeviceSpec& device, Bytes budget,
                                        const Machine* machine) {
  if (load == 1) {
    return estimate(model, plan, device, budget, machine);
  }
  Result<StepEstimate> loaded = estimate(model, with_load(plan, load), device, budget);
  if (!loaded || machine == nullptr) {
    return loaded;
  }
  Result<StepEstimate> even = estimate(model, plan, device, budget, machine);
  if (!even) {
    return even;
  }
  loaded.value().time = std::move(even.value().time);
  return loaded;
}

}  // namespace headroom::cost
