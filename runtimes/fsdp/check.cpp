#include "runtimes/fsdp/check.h"

#include <string>

#include "runtimes/fsdp/plan.h"

namespace headroom::ir::fsdp {

Status check_replicas(const ParallelPlan& plan) {
  if (has_fsdp(plan) && (plan.mesh.replicas < 1 || plan.world % plan.mesh.replicas != 0)) {
    return Error::invalid_argument("fsdp", "replicas=" + std::to_string(plan.mesh.replicas),
                                   "a divisor of --gpus " + std::to_string(plan.world));
  }
  return ok();
}

}  // namespace headroom::ir::fsdp
