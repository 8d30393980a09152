#include "runtimes/torchtune/launch.h"

#include <algorithm>
#include <initializer_list>
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

bool adapts(const LoraPlan& lora, std::initializer_list<std::string_view> modules) {
  return lora.targets.empty() || std::ranges::any_of(lora.targets, [&](std::string_view name) {
           return std::ranges::any_of(
               modules, [name](std::string_view module) { return name.ends_with(module); });
         });
}

/// torchtune adapts projections of the attention by name, and those of the MLP together. Phi-3's
/// fused layers are several there.
/// Source: torchtune/modules/peft/_utils.py, LORA_ATTN_MODULES.
void add_adapters(Words& words, const LoraPlan& lora) {
  std::string attention;
  for (const auto& [module, own] : {std::pair{"q_proj", "q_proj"},
                                    {"k_proj", "k_proj"},
                                    {"v_proj", "v_proj"},
                                    {"o_proj", "output_proj"}}) {
    const bool output = std::string_view(module) == "o_proj";
    if (adapts(lora, {module, output ? "o_proj" : "qkv_proj"})) {
      attention += (attention.empty() ? "" : ",") + std::string(own);
    }
  }
  const bool mlp = adapts(lora, {"gate_proj", "up_proj", "down_proj"});  // gate_up_proj, too.
  append_words(words, {"model.lora_attn_modules=[" + attention + "]",
                       "model.apply_lora_to_mlp=" + python_text(mlp),
                       "model.lora_rank=" + std::to_string(lora.rank),
                       "model.lora_alpha=" + std::to_string(2 * lora.rank),
                       "model.lora_dropout=" + to_json(JsonValue{lora.dropout})});
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
    case OptimizerForm::kForeach:
    case OptimizerForm::kFused:
    case OptimizerForm::kLoop:
      break;
  }
  return "torch.optim.AdamW";
}

/// The optimizer's class, without its learning rate; nothing where torchtune has no such class.
void add_optimizer(Words& words, const OptimizerPlan& optimizer, std::string_view config) {
  if (optimizer.kind == OptimizerKind::kSgd) {
    words.emplace_back("optimizer=torch.optim.SGD");
  } else if (optimizer.kind == OptimizerKind::kAdamW) {
    words.push_back("optimizer=" + adamw_class(optimizer.form));
  } else {
    return;
  }
  const OptimizerForm form = optimizer.form;
  const bool own = form == OptimizerForm::kFused || form == OptimizerForm::kForeach ||
                   form == OptimizerForm::kLoop;
  if (own) {
    words.push_back("optimizer.fused=" + python_text(form == OptimizerForm::kFused));
    if (form != OptimizerForm::kFused) {
      words.push_back("optimizer.foreach=" + python_text(form == OptimizerForm::kForeach));
    }
  } else if (names_fused(config)) {
    words.emplace_back("~optimizer.fused");  // bitsandbytes has no such argument.
  }
}

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
    if (plan.world > local) {
      append_words(launch.command,
                   {"--rdzv_backend", "c10d", "--rdzv_endpoint", "$HEAD_NODE:29500"});
    }
  }
  const bool recomputes = plan.recompute != Recompute::kNone;
  const bool selective = recomputes && plan.recompute_every > 1;
  const std::string recipe = plan.lora ? "lora_finetune_" : "full_finetune_";
  const std::string shipped = shipped_config(model, plan, site.model);
  append_words(
      launch.command,
      {recipe + (plan.world > 1 ? "distributed" : "single_device"), "--config",
       shipped.empty() ? "config.yaml" : shipped,
       "batch_size=" + std::to_string(plan.workload.micro_batch),
       "gradient_accumulation_steps=" + std::to_string(plan.workload.accumulation),
       "tokenizer.max_seq_len=" + std::to_string(plan.workload.sequence),
       std::string("dtype=") + (param_dtype(plan.precision) == DType::kBf16 ? "bf16" : "fp32"),
       "enable_activation_checkpointing=" + python_text(recomputes && !selective),
       "loss=" + loss_class(plan.loss),
       "clip_grad_norm=" + (plan.clip_norm ? to_json(JsonValue{*plan.clip_norm}) : "null")});
  if (has_fsdp(plan)) {
    append_words(launch.command, {"fsdp_cpu_offload=" + python_text(fsdp_of(plan).cpu_offload),
                                  "fsdp_reshard_after_forward=" +
                                      python_text(fsdp_of(plan).reshard_after_forward)});
    launch.command.emplace_back(fsdp_of(plan).shard_embeddings
                                    ? "custom_sharded_layers=[tok_embeddings,output]"
                                    : "custom_sharded_layers=[]");
    if (plan.mesh.replicas > 1) {
      append_words(launch.command,
                   {"data_parallel_replicate_dim=" + std::to_string(plan.mesh.replicas)});
    }
  }
  if (selective) {
    append_words(launch.command,
                 {"ac_mode=selective", "ac_option=" + std::to_string(plan.recompute_every)});
  }
  if (plan.lora) {
    add_adapters(launch.command, *plan.lora);
  }
  add_optimizer(launch.command, plan.optimizer, shipped);
  // Always, since the shipped files switch some of them on.
  for (const OptionField& field : options().fields) {
    const std::string_view own = field.own.name;
    if (!own.empty() && !(plan.lora && own == "optimizer_in_bwd")) {
      launch.command.push_back(std::string(own) + "=" +
                               python_text(field.get(plan).as_bool().value_or(false)));
    }
  }
  if (model.family == Family::kQwen3) {
    // Source: pytorch/torchtune, torchtune/models/qwen3, which eb01f076 added after v0.6.1.
    launch.code.emplace_back(
        "# torchtune 0.6 has no Qwen3. Its main branch has: install it from the repository. The "
        "prediction");
    launch.code.emplace_back(
        "# is for the recipes of 0.6, and the configs are below qwen3/ (tune ls).");
  } else if (shipped.empty()) {
    launch.code.emplace_back(
        "# torchtune 0.6 ships no config.yaml for this model and recipe: copy another one of this "
        "recipe");
    launch.code.emplace_back(
        "# (tune ls, tune cp NAME config.yaml), and change its model, tokenizer and checkpointer.");
  } else {
    launch.code.emplace_back(
        "# Download the weights first (tune download). checkpointer.checkpoint_dir and");
    launch.code.emplace_back("# tokenizer.path say where, if it is not the folder of the config.");
  }
  launch.code.emplace_back(
      "# tokenizer.max_seq_len only truncates: the prediction is for sequences of this length.");
  return launch;
}

}  // namespace headroom::ir::torchtune
