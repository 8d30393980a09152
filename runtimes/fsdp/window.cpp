#include "runtimes/fsdp/window.h"

namespace headroom::ir::fsdp {

void settle_shards(ParallelPlan& plan) {
  if (!plan.fsdp || plan.world % plan.fsdp->replicas != 0) {
    plan.fsdp = FsdpPlan{};
  }
}

PlanControl replicas_control() {
  return degree_control(kReplicasLabel, &ParallelPlan::fsdp, &FsdpPlan::replicas);
}

}  // namespace headroom::ir::fsdp
