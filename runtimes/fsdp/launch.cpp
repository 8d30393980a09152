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

/// Whether Accelerate may use its mixed precision, under which it makes fp32 weights of all that
/// are trained. Adapters have fp32 weights anyway.
/// Source: huggingface/accelerate 1.15 src/accelerate/utils/fsdp_utils.py, fsdp2_prepare_model, and
///         accelerator.py, prepare_model ("upcast of low precision parameters").
bool may_upcast(const ParallelPlan& plan) {
  return plan.lora.has_value() || param_dtype(plan.precision) == DType::kFp32;
}

std::string mixed_precision(const ParallelPlan& plan, DType dtype) {
  const std::string name = dtype == DType::kBf16 ? "bf16" : dtype == DType::kFp16 ? "fp16" : "no";
  return may_upcast(plan) ? name : "no";
}

/// The lines that set the types of parameters and of reductions where --mixed_precision does not.
/// Source: huggingface/accelerate src/accelerate/utils/dataclasses.py,
///         FullyShardedDataParallelPlugin.set_mixed_precision: one type for both. fsdp_utils.py,
///         fsdp2_prepare_model, and accelerator.py read the policy when the Trainer prepares its
///         model.
std::vector<std::string> policy_lines(const ParallelPlan& plan) {
  const FsdpPlan fsdp = fsdp_of(plan);
  const DType reduced = may_upcast(plan) ? fsdp.param_dtype : param_dtype(plan.precision);
  std::vector<std::string> lines;
  if (!may_upcast(plan)) {
    lines.push_back(
        "# keep --mixed_precision no: with bf16, Accelerate makes fp32 weights of the "
        "16-bit ones");
  } else if (plan.lora && fsdp.param_dtype != DType::kFp32) {
    // Source: huggingface/accelerate#3848.
    lines.emplace_back(
        "# Accelerate 1.13 or later: earlier ones make the frozen weights fp32, too");
  }
  if (fsdp.reduce_dtype == reduced && fsdp.param_dtype == reduced) {
    return lines;
  }
  const std::string policy = fsdp.version == 2 ? "MixedPrecisionPolicy" : "MixedPrecision";
  lines.push_back(
      "# the types of FSDP's policy, which --mixed_precision does not set; after trainer = "
      "Trainer(...):");
  lines.push_back("from torch.distributed.fsdp import " + policy);
  lines.push_back("trainer.accelerator.state.fsdp_plugin.mixed_precision_policy = " + policy +
                  "(param_dtype=" + torch_dtype(fsdp.param_dtype) +
                  ", reduce_dtype=" + torch_dtype(fsdp.reduce_dtype) + ")");
  return lines;
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
                .code = transformers::script_lines(model, plan, site.model, DType::kBf16)};
  if (nodes > 1) {
    append_words(launch.command, {"--machine_rank", "$NODE_RANK", "--main_process_ip", "$HEAD_NODE",
                                  "--main_process_port", "29500"});
  }
  append_words(launch.command, {"--mixed_precision", mixed_precision(plan, fsdp.param_dtype)});
  append_words(launch.command, plugin_words(plan));
  launch.command.emplace_back("train.py");
  append_words(launch.command, transformers::training_arguments(plan));
  if (plan.quant && fsdp.quantised_on_host) {
    launch.code.emplace_back("# this needs transformers 4: transformers 5 quantises on the GPU");
  }
  append_words(launch.code, policy_lines(plan));
  return launch;
}

}  // namespace headroom::ir::fsdp
