#include "runtimes/torchtune/check.h"

#include <string_view>

#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torchtune/plan.h"

namespace headroom::ir::torchtune {
namespace {

/// The conflict between torchtune's options and its recipes; empty if there is none.
std::string_view tune_trouble(const ParallelPlan& plan) {
  const TunePlan& tune = tune_of(plan);
  const bool recomputed = plan.recompute == Recompute::kFull && plan.recompute_every == 1;
  const bool alone = !has_fsdp(plan) && !has_ddp(plan);
  if (tune.compiled && !recomputed) {
    return "compiled layers without --checkpointing full: what they keep is not modelled";
  }
  if (tune.offload_activations && (!recomputed || !alone)) {
    return "offloaded activations without --checkpointing full, or on several GPUs";
  }
  if (tune.optimizer_in_backward && (plan.accumulation > 1 || plan.clip_norm || !alone)) {
    return "the optimizer in backward with accumulation, clipping or several GPUs";
  }
  return {};
}

}  // namespace

Status check_torchtune(const ParallelPlan& plan) {
  if (Status version = refuse_version(plan); !version) {
    return version;
  }
  if (Status replicas = fsdp::check_replicas(plan); !replicas) {
    return replicas;
  }
  const std::string_view trouble = has_tune(plan) ? tune_trouble(plan) : std::string_view{};
  if (!trouble.empty()) {
    return Error::invalid_argument("tune", trouble, "choices that a recipe of torchtune takes",
                                   "change them, or leave out --tune");
  }
  return ok();
}

}  // namespace headroom::ir::torchtune
