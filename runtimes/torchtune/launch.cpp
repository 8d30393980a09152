#include "runtimes/torchtune/launch.h"

#include <algorithm>
#include <string>

#include "model_ir/json/json_value.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtune/options.h"
#include "runtimes/torchtune/plan.h"

namespace headroom::ir::torchtune {

Launch tune_launch(const ParallelPlan& plan, const LaunchSite& site) {
  const std::int64_t local = std::min(plan.world, site.gpus_per_node);
  // Source: pytorch/torchtune torchtune/_cli/run.py, recipes/full_finetune_distributed.py and
  // recipes/lora_finetune_distributed.py with those of single_device.
  Launch launch{.command = {"tune", "run"}, .code = {}};
  if (plan.world > 1) {
    append_words(launch.command, {"--nnodes", std::to_string((plan.world + local - 1) / local),
                                  "--nproc_per_node", std::to_string(local)});
  }
  const std::string recipe = plan.lora ? "lora_finetune_" : "full_finetune_";
  const auto flag = [](bool value) { return value ? "True" : "False"; };
  append_words(
      launch.command,
      {recipe + (plan.world > 1 ? "distributed" : "single_device"), "--config", "config.yaml",
       "batch_size=" + std::to_string(plan.workload.micro_batch),
       "gradient_accumulation_steps=" + std::to_string(plan.workload.accumulation),
       "tokenizer.max_seq_len=" + std::to_string(plan.workload.sequence),
       std::string("dtype=") + (param_dtype(plan.precision) == DType::kBf16 ? "bf16" : "fp32"),
       std::string("enable_activation_checkpointing=") + flag(plan.recompute != Recompute::kNone),
       "clip_grad_norm=" + (plan.clip_norm ? to_json(JsonValue{*plan.clip_norm}) : "null")});
  if (has_fsdp(plan)) {
    append_words(
        launch.command,
        {std::string("fsdp_cpu_offload=") + flag(fsdp_of(plan).cpu_offload),
         std::string("fsdp_reshard_after_forward=") + flag(fsdp_of(plan).reshard_after_forward)});
    if (plan.mesh.replicas > 1) {
      append_words(launch.command,
                   {"data_parallel_replicate_dim=" + std::to_string(plan.mesh.replicas)});
    }
  }
  if (plan.lora) {
    append_words(launch.command, {"model.lora_rank=" + std::to_string(plan.lora->rank)});
  }
  for (const OptionField& field : options().fields) {
    if (has_tune(plan) && !field.own.name.empty() && !field.same(plan, options().usual())) {
      launch.command.push_back(std::string(field.own.name) + "=" +
                               flag(field.get(plan).as_bool().value_or(false)));
    }
  }
  return launch;
}

}  // namespace headroom::ir::torchtune
