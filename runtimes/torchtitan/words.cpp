#include "runtimes/torchtitan/words.h"

#include "model_ir/plan/plan_words.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/runtime.h"
#include "runtimes/interface/description.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

/// Words for degrees, pipeline and sharding.
std::string degree_words(const ParallelPlan& plan, const TitanPlan& titan) {
  const bool pipelined = plan.mesh.pipeline > 1;
  const std::int64_t replicas = plan.mesh.replicas;
  std::string text;
  add_degree(text, "tp", plan.mesh.tensor, true);
  add_degree(text, "pp", plan.mesh.pipeline, true);
  add_word(text, "schedule=" + std::string(name_of(titan.schedule)), pipelined);
  add_degree(text, "vpp-layers", titan.stage_layers, titan.stage_layers > 0);
  add_degree(text, "pipeline-runs", plan.workload.accumulation,
             pipelined && plan.workload.accumulation > 1);
  add_degree(text, "cp", plan.mesh.context, plan.mesh.context > 1);
  add_degree(text, "ep", plan.mesh.expert, plan.mesh.expert > 1);
  add_degree(text, "etp", titan_expert_tensor(plan.mesh), titan_expert_tensor(plan.mesh) > 1);
  add_degree(text, "dp", plan.world / plan.mesh.tensor / plan.mesh.pipeline / plan.mesh.context,
             true);
  add_degree(text, "replicas", replicas, replicas > 1);
  add_word(text, "account-for-embedding=no", pipelined && titan.first_stage_less == 0);
  add_word(text, "account-for-loss=no", pipelined && titan.last_stage_less == 0);
  const bool reshards = titan.reshard == TitanReshard::kAlways ||
                        (titan.reshard == TitanReshard::kDefault && !pipelined);
  add_word(text, "reshard=no", !reshards);
  add_word(text, "compiled", titan.compiled);
  return text;
}

std::string recompute_words(const ParallelPlan& plan, const TitanPlan& titan) {
  if (titan.selective_operators) {
    return "recomputes by operators";
  }
  if (plan.recompute == Recompute::kNone) {
    return "no recomputation";
  }
  return plan.recompute_every == 1
             ? "recomputes every layer"
             : "recomputes one layer in " + std::to_string(plan.recompute_every);
}

}  // namespace

std::string layout_words(const ParallelPlan& plan, const TypedOption& typed) {
  // A plan without options of torchtitan has its defaults, which are still described.
  const std::string own = has_titan(plan) ? typed("titan") : "tp=1,reshard=default";
  const bool compiled = has_titan(plan) && titan_of(plan).compiled;
  return own + (compiled ? " (approximate)" : "") + (has_fsdp(plan) ? " " + typed("fsdp") : "");
}

std::string description(const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  const std::int64_t sequences =
      plan.mesh.pipeline > 1 ? titan.pipeline_batch : plan.workload.micro_batch;
  return "torchtitan" + degree_words(plan, titan) + fsdp::precision_words(plan) +
         optimizer_words_of(plan) + kernel_words_of(plan) +
         batch_words(sequences,
                     plan.workload.micro_batch * plan.workload.accumulation / sequences) +
         recompute_words(plan, titan);
}

}  // namespace headroom::ir::torchtitan
