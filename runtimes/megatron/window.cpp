#include "runtimes/megatron/window.h"

namespace headroom::ir::megatron {

void settle_plan(ParallelPlan& plan) {
  drop_foreign_parts(plan, {"megatron"});
  MegatronPlan megatron = plan.megatron.value_or(MegatronPlan{});
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
  plan.megatron = megatron;
  plan.recompute = usual.recompute;
  plan.recompute_every = usual.recompute_every;
  plan.attention = usual.attention;
  plan.loss = usual.loss;
  plan.lora.reset();
  if (plan.optimizer.kind != OptimizerKind::kAdamW ||
      plan.optimizer.form != OptimizerForm::kFused) {
    plan.optimizer = usual.optimizer;
  }
}

std::vector<PlanControl> window_controls() {
  return {degree_control(kTensorParallelLabel, &ParallelPlan::megatron, &MegatronPlan::tensor),
          degree_control(kPipelineStagesLabel, &ParallelPlan::megatron, &MegatronPlan::pipeline),
          degree_control(kContextParallelLabel, &ParallelPlan::megatron, &MegatronPlan::context),
          degree_control(kExpertParallelLabel, &ParallelPlan::megatron, &MegatronPlan::expert)};
}

Recompute recomputation_of(const ParallelPlan& plan) {
  const bool recomputes = plan.megatron && plan.megatron->recompute != MegatronRecompute::kNone;
  return recomputes ? Recompute::kFull : plan.recompute;
}

void put_recomputation(ParallelPlan& plan, Recompute recompute) {
  plan.recompute = recompute;  // `settle_plan` translates it.
  if (plan.megatron && recompute == Recompute::kNone) {
    plan.megatron->recompute = MegatronRecompute::kNone;
  }
}

}  // namespace headroom::ir::megatron
