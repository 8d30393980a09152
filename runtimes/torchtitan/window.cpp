#include "runtimes/torchtitan/window.h"

#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/window.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

/// Context-parallel ranks are among the ranks that share a model; replicas are not.
bool divides(const Mesh& mesh, std::int64_t world) {
  const std::int64_t stages = mesh.tensor * mesh.pipeline;
  return world % (stages * mesh.context) == 0 && world % (stages * mesh.replicas) == 0;
}

void settle_degrees(ParallelPlan& plan) {
  Mesh& mesh = plan.mesh;
  if (!divides(mesh, plan.world)) {
    mesh.tensor = 1;
    mesh.pipeline = 1;
    mesh.context = 1;
  }
  if (mesh.tensor == 1 || mesh.expert == 1) {
    mesh.expert_tensor = Mesh{}.expert_tensor;
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
  if (!has_titan(plan)) {
    plan.mesh = {.replicas = plan.mesh.replicas};
  }
  plan.own.keep<FsdpPlan, TitanPlan>();
  static_cast<void>(edit_titan(plan));
  fsdp::settle_shards(plan);
  settle_degrees(plan);
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

}  // namespace headroom::ir::torchtitan
