#include "runtimes/fsdp/window.h"

#include "runtimes/fsdp/plan.h"

namespace headroom::ir::fsdp {

void settle_shards(ParallelPlan& plan) {
  if (!has_fsdp(plan) || plan.world % plan.mesh.replicas != 0) {
    edit_fsdp(plan) = FsdpPlan{};
    plan.mesh.replicas = 1;
  }
}

}  // namespace headroom::ir::fsdp
