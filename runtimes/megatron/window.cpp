#include "runtimes/megatron/window.h"

#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {

void settle_plan(ParallelPlan& plan) {
  if (!has_megatron(plan)) {
    plan.mesh = {};
  }
  plan.own.keep<MegatronPlan>();
  MegatronPlan megatron = megatron_of(plan);
  if (plan.world % (plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context) != 0) {
    plan.mesh.tensor = 1;
    plan.mesh.pipeline = 1;
    plan.mesh.context = 1;
  }
  megatron.sequence_parallel = plan.mesh.tensor > 1;
  if (plan.recompute != Recompute::kNone) {
    megatron.recompute = MegatronRecompute::kFullUniform;
  }
  const ParallelPlan usual;
  edit_megatron(plan) = megatron;
  plan.recompute = usual.recompute;
  plan.recompute_every = usual.recompute_every;
  plan.recompute_first = usual.recompute_first;
  plan.attention = usual.attention;
  plan.loss = usual.loss;
  plan.lora.reset();
  if (plan.optimizer.kind != OptimizerKind::kAdamW ||
      plan.optimizer.form != OptimizerForm::kFused) {
    plan.optimizer = usual.optimizer;
  }
}

}  // namespace headroom::ir::megatron
