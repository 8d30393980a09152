#include "runtimes/torchtitan/window.h"

#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/window.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

/// Context-parallel ranks are among the ranks that share a model; replicas are not.
bool divides(const ParallelPlan& plan, const TitanPlan& titan) {
  const std::int64_t stages = titan.tensor * titan.pipeline;
  return plan.world % (stages * titan.context) == 0 &&
         plan.world % (stages * fsdp_of(plan).replicas) == 0;
}

void settle_degrees(const ParallelPlan& plan, TitanPlan& titan) {
  if (!divides(plan, titan)) {
    titan.tensor = 1;
    titan.pipeline = 1;
    titan.context = 1;
  }
  if (titan.tensor == 1 || titan.expert == 1) {
    titan.expert_tensor = 1;
  }
}

bool is_adamw(const OptimizerPlan& optimizer) {
  return optimizer.kind == OptimizerKind::kAdamW &&
         (optimizer.form == OptimizerForm::kFused || optimizer.form == OptimizerForm::kForeach ||
          optimizer.form == OptimizerForm::kLoop);
}

}  // namespace

void settle_plan(ParallelPlan& plan) {
  const ParallelPlan usual;
  plan.own.keep<FsdpPlan, TitanPlan>();
  fsdp::settle_shards(plan);
  TitanPlan titan = titan_of(plan);
  settle_degrees(plan, titan);
  edit_titan(plan) = titan;
  plan.lora.reset();
  plan.attention = usual.attention;
  plan.loss = usual.loss;
  if (plan.recompute == Recompute::kFullReentrant) {
    plan.recompute = Recompute::kFull;
  }
  if (!is_adamw(plan.optimizer)) {
    plan.optimizer = {.kind = OptimizerKind::kAdamW, .form = OptimizerForm::kFused};
  }
}

std::vector<PlanControl> window_controls() {
  return {degree_control(kTensorParallelLabel, &TitanPlan::tensor),
          degree_control(kPipelineStagesLabel, &TitanPlan::pipeline),
          degree_control(kContextParallelLabel, &TitanPlan::context),
          degree_control(kExpertParallelLabel, &TitanPlan::expert), fsdp::replicas_control()};
}

}  // namespace headroom::ir::torchtitan
