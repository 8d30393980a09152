#include "runtimes/fsdp/launch.h"

#include <algorithm>
#include <string>

#include "runtimes/fsdp/plan.h"
#include "runtimes/transformers/launch.h"

namespace headroom::ir::fsdp {
namespace {

std::string lower(bool value) {
  return value ? "true" : "false";
}

std::string torch_dtype(DType dtype) {
  return dtype == DType::kBf16   ? "torch.bfloat16"
         : dtype == DType::kFp16 ? "torch.float16"
                                 : "torch.float32";
}

std::string mixed_precision(DType dtype) {
  return dtype == DType::kBf16 ? "bf16" : dtype == DType::kFp16 ? "fp16" : "no";
}

/// Source: huggingface/accelerate src/accelerate/commands/launch.py, FSDP Arguments.
std::vector<std::string> plugin_words(const ParallelPlan& plan) {
  const FsdpPlan fsdp = fsdp_of(plan);
  const bool hybrid = plan.mesh.replicas > 1;
  std::vector<std::string> words = {"--use_fsdp",
                                    "--fsdp_version",
                                    std::to_string(fsdp.version),
                                    "--fsdp_auto_wrap_policy",
                                    "TRANSFORMER_BASED_WRAP",
                                    "--fsdp_offload_params",
                                    lower(fsdp.cpu_offload)};
  if (fsdp.version == 2) {
    append_words(words, {"--fsdp_reshard_after_forward", lower(fsdp.reshard_after_forward)});
    if (hybrid) {
      append_words(words,
                   {"--use_parallelism_config", "true", "--parallelism_config_dp_replicate_size",
                    std::to_string(plan.mesh.replicas), "--parallelism_config_dp_shard_size",
                    std::to_string(plan.world / plan.mesh.replicas)});
    }
    return words;
  }
  const bool whole = plan.mesh.replicas == plan.world;
  append_words(words, {"--fsdp_sharding_strategy",
                       whole                        ? "NO_SHARD"
                       : hybrid                     ? "HYBRID_SHARD"
                       : fsdp.reshard_after_forward ? "FULL_SHARD"
                                                    : "SHARD_GRAD_OP",
                       "--fsdp_backward_prefetch",
                       fsdp.backward_prefetch == FsdpPrefetch::kBackwardPre ? "BACKWARD_PRE"
                                                                            : "BACKWARD_POST",
                       "--fsdp_forward_prefetch", lower(fsdp.forward_prefetch),
                       "--fsdp_use_orig_params", lower(fsdp.use_orig_params)});
  return words;
}

}  // namespace

Launch accelerate_launch(const ModelSpec& model, const ParallelPlan& plan, const LaunchSite& site) {
  const FsdpPlan fsdp = fsdp_of(plan);
  const std::int64_t local = std::min(plan.world, site.gpus_per_node);
  const std::int64_t nodes = (plan.world + local - 1) / local;
  Launch launch{.command = {"accelerate", "launch", "--num_processes", std::to_string(plan.world),
                            "--num_machines", std::to_string(nodes)},
                .code = transformers::script_lines(model, plan, site.model)};
  if (nodes > 1) {
    append_words(launch.command, {"--machine_rank", "$NODE_RANK", "--main_process_ip", "$HEAD_NODE",
                                  "--main_process_port", "29500"});
  }
  append_words(launch.command, {"--mixed_precision", mixed_precision(fsdp.param_dtype)});
  append_words(launch.command, plugin_words(plan));
  launch.command.emplace_back("train.py");
  append_words(launch.command, transformers::training_arguments(plan));
  if (plan.quant) {
    // Source: huggingface/peft docs/source/accelerate/fsdp.md, bnb_4bit_quant_storage.
    launch.code.emplace_back(
        "# FSDP shards 4-bit weights as bf16: add bnb_4bit_quant_storage=torch.bfloat16 to "
        "BitsAndBytesConfig");
  }
  if (fsdp.version == 2 && fsdp.reduce_dtype != fsdp.param_dtype) {
    // Source: huggingface/accelerate src/accelerate/utils/dataclasses.py,
    // FullyShardedDataParallelPlugin.set_mixed_precision: one type for both. fsdp_utils.py,
    // fsdp2_prepare_model reads the policy when the Trainer prepares its model.
    launch.code.push_back(
        "# --mixed_precision reduces in the parameters' type. To reduce in another, after "
        "trainer = Trainer(...):");
    launch.code.emplace_back("from torch.distributed.fsdp import MixedPrecisionPolicy");
    launch.code.push_back(
        "trainer.accelerator.state.fsdp_plugin.mixed_precision_policy = MixedPrecisionPolicy("
        "param_dtype=" +
        torch_dtype(fsdp.param_dtype) + ", reduce_dtype=" + torch_dtype(fsdp.reduce_dtype) + ")");
  }
  return launch;
}

}  // namespace headroom::ir::fsdp
