#include "runtimes/litgpt/launch.h"

#include <string>

namespace headroom::ir::litgpt {

Launch litgpt_launch(const ParallelPlan& plan, const LaunchSite& site) {
  // Source: Lightning-AI/litgpt litgpt/finetune/full.py and lora.py, litgpt/args.py (TrainArgs).
  Launch launch{.command = {"litgpt", plan.lora ? "finetune_lora" : "finetune_full", site.model,
                            "--precision", "bf16-true", "--devices", std::to_string(plan.world),
                            "--train.micro_batch_size", std::to_string(plan.workload.micro_batch),
                            "--train.global_batch_size",
                            std::to_string(plan.workload.micro_batch * plan.workload.accumulation *
                                           plan.world),
                            "--train.max_seq_length", std::to_string(plan.workload.sequence)},
                .code = {}};
  if (plan.lora) {
    append_words(launch.command, {"--lora_r", std::to_string(plan.lora->rank)});
  }
  if (plan.quant) {
    append_words(launch.command,
                 {"--quantize", plan.quant->double_quant ? "bnb.nf4-dq" : "bnb.nf4"});
  }
  return launch;
}

}  // namespace headroom::ir::litgpt
