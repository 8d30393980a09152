#include "runtimes/megatron/window.h"

#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {

void settle_plan(ParallelPlan& plan) {
  plan.own.keep<MegatronPlan>();
  MegatronPlan megatron = megatron_of(plan);
  if (plan.world % (megatron.tensor * megatron.pipeline * megatron.context) != 0) {
    megatron.tensor = 1;
    megatron.pipeline = 1;
    megatron.context = 1;
  }
  megatron.sequence_parallel = megatron.tensor > 1;
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

std::vector<PlanControl> window_controls() {
  return {degree_control(kTensorParallelLabel, &MegatronPlan::tensor),
          degree_control(kPipelineStagesLabel, &MegatronPlan::pipeline),
          degree_control(kContextParallelLabel, &MegatronPlan::context),
          degree_control(kExpertParallelLabel, &MegatronPlan::expert)};
}

Recompute recomputation_of(const ParallelPlan& plan) {
  const bool recomputes =
      has_megatron(plan) && megatron_of(plan).recompute != MegatronRecompute::kNone;
  return recomputes ? Recompute::kFull : plan.recompute;
}

void put_recomputation(ParallelPlan& plan, Recompute recompute) {
  plan.recompute = recompute;  // `settle_plan` translates it.
  if (has_megatron(plan) && recompute == Recompute::kNone) {
    edit_megatron(plan).recompute = MegatronRecompute::kNone;
  }
}

}  // namespace headroom::ir::megatron
