#include "runtimes/torchtune/launch.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/json/json_value.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtune/options.h"
#include "runtimes/torchtune/plan.h"
#include "runtimes/torchtune/shipped_configs.h"

namespace headroom::ir::torchtune {
namespace {

using Words = std::vector<std::string>;

const char* flag(bool value) {
  return value ? "True" : "False";
}

bool adapts(const LoraPlan& lora, std::string_view module) {
  return lora.targets.empty() ||
         std::ranges::any_of(lora.targets, [module](const std::string& name) {
           return std::string_view(name).ends_with(module);
         });
}

/// torchtune adapts projections of the attention by name, and those of the MLP together.
/// Source: torchtune/modules/peft/_utils.py, LORA_ATTN_MODULES.
void add_adapters(Words& words, const LoraPlan& lora) {
  std::string attention;
  for (const auto& [module, own] : {std::pair{"q_proj", "q_proj"},
                                    {"k_proj", "k_proj"},
                                    {"v_proj", "v_proj"},
                                    {"o_proj", "output_proj"}}) {
    if (adapts(lora, module)) {
      attention += (attention.empty() ? "" : ",") + std::string(own);
    }
  }
  append_words(words,
               {"model.lora_attn_modules=[" + attention + "]",
                std::string("model.apply_lora_to_mlp=") + flag(adapts(lora, "gate_proj")),
                "model.apply_lora_to_output=False", "model.lora_rank=" + std::to_string(lora.rank),
                "model.lora_alpha=" + std::to_string(2 * lora.rank)});
  if (lora.dora) {
    words.emplace_back("model.use_dora=True");
  }
}

std::string adamw_class(OptimizerForm form) {
  switch (form) {
    case OptimizerForm::kEightBit:
      return "bitsandbytes.optim.AdamW8bit";
    case OptimizerForm::kPagedEightBit:
      return "bitsandbytes.optim.PagedAdamW8bit";
    case OptimizerForm::kPaged:
      return "bitsandbytes.optim.PagedAdamW";
    default:
      return "torch.optim.AdamW";
  }
}

/// The optimizer's class, without its learning rate; nothing where torchtune has no such class.
void add_optimizer(Words& words, const OptimizerPlan& optimizer) {
  if (optimizer.kind == OptimizerKind::kSgd) {
    words.emplace_back("optimizer=torch.optim.SGD");
  } else if (optimizer.kind == OptimizerKind::kAdamW) {
    words.push_back("optimizer=" + adamw_class(optimizer.form));
    if (optimizer.form == OptimizerForm::kFused || optimizer.form == OptimizerForm::kForeach) {
      words.push_back(std::string("optimizer.fused=") +
                      flag(optimizer.form == OptimizerForm::kFused));
    }
  }
}

/// Losses of a run without torch.compile and of one with it are the same classes.
std::string loss_class(LossKind loss) {
  return loss == LossKind::kChunked ? "torchtune.modules.loss.CEWithChunkedOutputLoss"
                                    : "torch.nn.CrossEntropyLoss";
}

}  // namespace

Launch tune_launch(const ModelSpec& model, const ParallelPlan& plan, const LaunchSite& site) {
  const std::int64_t local = std::min(plan.world, site.gpus_per_node);
  // Source: pytorch/torchtune torchtune/_cli/run.py, recipes/full_finetune_distributed.py and
  // recipes/lora_finetune_distributed.py with those of single_device.
  Launch launch{.command = {"tune", "run"}, .code = {}};
  if (plan.world > 1) {
    append_words(launch.command, {"--nnodes", std::to_string((plan.world + local - 1) / local),
                                  "--nproc_per_node", std::to_string(local)});
  }
  const std::string recipe = plan.lora ? "lora_finetune_" : "full_finetune_";
  const std::string shipped = shipped_config(model, plan);
  append_words(
      launch.command,
      {recipe + (plan.world > 1 ? "distributed" : "single_device"), "--config",
       shipped.empty() ? "config.yaml" : shipped,
       "batch_size=" + std::to_string(plan.workload.micro_batch),
       "gradient_accumulation_steps=" + std::to_string(plan.workload.accumulation),
       "tokenizer.max_seq_len=" + std::to_string(plan.workload.sequence),
       std::string("dtype=") + (param_dtype(plan.precision) == DType::kBf16 ? "bf16" : "fp32"),
       std::string("enable_activation_checkpointing=") + flag(plan.recompute != Recompute::kNone),
       "loss=" + loss_class(plan.loss),
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
    add_adapters(launch.command, *plan.lora);
  }
  add_optimizer(launch.command, plan.optimizer);
  for (const OptionField& field : options().fields) {
    if (has_tune(plan) && !field.own.name.empty() && !field.same(plan, options().usual())) {
      launch.command.push_back(std::string(field.own.name) + "=" +
                               flag(field.get(plan).as_bool().value_or(false)));
    }
  }
  if (shipped.empty()) {
    launch.code.emplace_back(
        "# torchtune ships no config.yaml for this model and recipe: copy that of another size");
    launch.code.emplace_back(
        "# (tune cp llama3_1/8B_lora config.yaml), and change its model, tokenizer and "
        "checkpointer.");
  } else {
    launch.code.emplace_back(
        "# The weights must be there first (tune download). checkpointer.checkpoint_dir and");
    launch.code.emplace_back("# tokenizer.path say where, if it is not the folder of the config.");
  }
  return launch;
}

}  // namespace headroom::ir::torchtune
