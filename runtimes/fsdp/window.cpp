#include "runtimes/fsdp/window.h"

#include "runtimes/fsdp/plan.h"

namespace headroom::ir::fsdp {

void settle_shards(ParallelPlan& plan) {
  if (!has_fsdp(plan) || plan.world % fsdp_of(plan).replicas != 0) {
    edit_fsdp(plan) = FsdpPlan{};
  }
}

PlanControl replicas_control() {
  return degree_control(kReplicasLabel, &FsdpPlan::replicas);
}

}  // namespace headroom::ir::fsdp
