#include "runtimes/fsdp/check.h"

#include <string>

namespace headroom::ir::fsdp {

Status check_replicas(const ParallelPlan& plan) {
  if (plan.fsdp && (plan.fsdp->replicas < 1 || plan.world % plan.fsdp->replicas != 0)) {
    return Error::invalid_argument("fsdp", "replicas=" + std::to_string(plan.fsdp->replicas),
                                   "a divisor of --gpus " + std::to_string(plan.world));
  }
  return ok();
}

}  // namespace headroom::ir::fsdp
