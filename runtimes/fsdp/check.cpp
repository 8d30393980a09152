#include "runtimes/fsdp/check.h"

#include <string>

#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/refusals.h"

namespace headroom::ir::fsdp {

Status check_replicas(const ParallelPlan& plan) {
  if (has_fsdp(plan) && (plan.mesh.replicas < 1 || plan.world % plan.mesh.replicas != 0)) {
    return no_divisor_of_gpus("fsdp", "replicas=" + std::to_string(plan.mesh.replicas), plan.world);
  }
  return ok();
}

}  // namespace headroom::ir::fsdp
