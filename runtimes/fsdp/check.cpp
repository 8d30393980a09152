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

Status check_optimizer(const ParallelPlan& plan) {
  if (!has_fsdp(plan) || fsdp_of(plan).version != 2 ||
      plan.optimizer.kind != OptimizerKind::kAdafactor) {
    return ok();
  }
  return Error::invalid_argument(
      "optimizer",
      "adafactor is not supported with FSDP2: the step of transformers' Adafactor adds "
      "plain tensors to DTensors, which PyTorch refuses",
      {}, "use --optimizer adafactor-torch, or --fsdp version=1");
}

}  // namespace headroom::ir::fsdp
