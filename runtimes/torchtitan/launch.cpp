#include "runtimes/torchtitan/launch.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/json/json_value.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

/// Names of `pipeline_parallel_schedule`.
/// Source: pytorch/pytorch torch/distributed/pipelining/schedules.py, get_schedule_class.
std::string_view schedule_name(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::kGPipe:
      return "GPipe";
    case PipelineKind::kInterleaved:
      return "Interleaved1F1B";
    case PipelineKind::kZbH1:
      return "InterleavedZeroBubble";
    case PipelineKind::kZbV:
      return "ZBVZeroBubble";
    case PipelineKind::kDualPipeV:
      return "DualPipeV";
    default:
      return "1F1B";  // The others have no name there.
  }
}

std::string_view recipe_name(Float8Recipe recipe) {
  switch (recipe) {
    case Float8Recipe::kRowwise:
      return "rowwise";
    case Float8Recipe::kRowwiseGradientHp:
      return "rowwise_with_gw_hp";
    default:
      return "tensorwise";
  }
}

void add_checkpointing(std::vector<std::string>& words, const ParallelPlan& plan,
                       const TitanPlan& titan) {
  const auto mode = [&words](std::string_view name) {
    words.push_back("--activation_checkpoint.mode=" + std::string(name));
  };
  if (titan.memory_budget) {
    mode("memory_budget");
    words.push_back("--activation_checkpoint.memory_budget=" +
                    to_json(JsonValue{*titan.memory_budget}));
  } else if (titan.selective_operators) {
    mode("selective");
    words.emplace_back("--activation_checkpoint.selective_ac_option=op");
  } else if (plan.recompute != Recompute::kNone && plan.recompute_every > 1) {
    mode("selective");
    words.push_back("--activation_checkpoint.selective_ac_option=" +
                    std::to_string(plan.recompute_every));
  } else {
    mode(plan.recompute == Recompute::kNone ? "none" : "full");
  }
}

void add_float8(std::vector<std::string>& words, const TitanPlan& titan) {
  if (titan.float8 == Float8Recipe::kNone) {
    return;
  }
  const std::string section = "--quantize.linear.float8.";
  append_words(words, {"--model.converters=quantize.linear.float8",
                       section + "recipe_name=" + std::string(recipe_name(titan.float8)),
                       section + "filter_fqns=output"});
  if (titan.float8_gather) {
    words.push_back(section + "enable_fsdp_float8_all_gather");
  }
  if (titan.float8_precompute) {
    words.push_back(section + "precompute_float8_dynamic_scale_for_fsdp");
  }
}

void add_pipeline(std::vector<std::string>& words, const ParallelPlan& plan) {
  const TitanPlan& titan = titan_of(plan);
  if (plan.mesh.pipeline == 1) {
    return;
  }
  const std::string section = "--parallelism.pipeline_parallel_";
  append_words(words,
               {section + "degree=" + std::to_string(plan.mesh.pipeline),
                section + "schedule=" + std::string(schedule_name(titan.schedule)),
                section + "microbatch_size=" + std::to_string(titan.pipeline_batch),
                section + "first_stage_less_layers=" + std::to_string(titan.first_stage_less),
                section + "last_stage_less_layers=" + std::to_string(titan.last_stage_less)});
  if (titan.stage_layers > 0) {
    words.push_back(section + "layers_per_stage=" + std::to_string(titan.stage_layers));
  }
}

/// Source: pytorch/torchtitan torchtitan/config/job_config.py (0.2.2).
std::vector<std::string> overrides(const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  const FsdpPlan fsdp = fsdp_of(plan);
  const std::int64_t data = std::max<std::int64_t>(
      1, plan.world / (plan.mesh.tensor * plan.mesh.context * plan.mesh.pipeline));
  const std::string batch =
      std::to_string(plan.workload.micro_batch * plan.workload.accumulation * data);
  std::vector<std::string> words = {
      "--training.local_batch_size=" + std::to_string(plan.workload.micro_batch),
      "--training.global_batch_size=" + batch,
      "--training.seq_len=" + std::to_string(plan.workload.sequence),
      "--parallelism.data_parallel_replicate_degree=" + std::to_string(plan.mesh.replicas),
      "--parallelism.data_parallel_shard_degree=-1",
      "--parallelism.fsdp_reshard_after_forward=" +
          std::string(word_of(titan_reshard_words(), titan.reshard))};
  // torchtitan always clips; without a norm of the plan, its default stays.
  if (plan.clip_norm) {
    words.push_back("--training.max_norm=" + to_json(JsonValue{*plan.clip_norm}));
  }
  const std::array<std::pair<std::string_view, std::int64_t>, 4> degrees = {
      {{"tensor", plan.mesh.tensor},
       {"context", plan.mesh.context},
       {"expert", plan.mesh.expert},
       {"expert_tensor", titan_expert_tensor(plan.mesh)}}};
  for (const auto& [name, degree] : degrees) {
    if (degree > 1) {
      words.push_back("--parallelism." + std::string(name) +
                      "_parallel_degree=" + std::to_string(degree));
    }
  }
  if (!titan.loss_parallel) {
    words.emplace_back("--parallelism.disable_loss_parallel");
  }
  add_pipeline(words, plan);
  add_checkpointing(words, plan, titan);
  words.push_back("--optimizer.implementation=" +
                  std::string(plan.optimizer.form == OptimizerForm::kFused     ? "fused"
                              : plan.optimizer.form == OptimizerForm::kForeach ? "foreach"
                                                                               : "for-loop"));
  if (titan.compiled) {
    words.emplace_back("--compile.enable");
  }
  if (param_dtype(plan.precision) == DType::kBf16) {
    words.emplace_back("--training.dtype=bfloat16");
  }
  if (fsdp.param_dtype == DType::kFp32) {
    words.emplace_back("--training.mixed_precision_param=float32");
  }
  if (fsdp.cpu_offload) {
    words.emplace_back("--training.enable_cpu_offload");
  }
  add_float8(words, titan);
  return words;
}

/// A size of a model that torchtitan has by name.
struct Flavour {
  std::string_view name;
  Family family;
  std::int64_t hidden;
  std::int64_t layers;
  double rotary_base;
};

/// Source: pytorch/torchtitan v0.2.2, torchtitan/models/llama3/__init__.py and
/// torchtitan/models/qwen3/__init__.py.
constexpr double kLlamaBase = 5e5;
constexpr double kQwenBase = 1e6;
constexpr std::array<Flavour, 11> kFlavours = {{{"8B", Family::kLlama, 4096, 32, kLlamaBase},
                                                {"70B", Family::kLlama, 8192, 80, kLlamaBase},
                                                {"405B", Family::kLlama, 16384, 126, kLlamaBase},
                                                {"0.6B", Family::kQwen3, 1024, 28, kQwenBase},
                                                {"1.7B", Family::kQwen3, 2048, 28, kQwenBase},
                                                {"4B", Family::kQwen3, 2560, 36, kQwenBase},
                                                {"8B", Family::kQwen3, 4096, 36, kQwenBase},
                                                {"14B", Family::kQwen3, 5120, 40, kQwenBase},
                                                {"32B", Family::kQwen3, 5120, 64, kQwenBase},
                                                {"30B-A3B", Family::kQwen3Moe, 2048, 48, kQwenBase},
                                                {"235B-A22B", Family::kQwen3Moe, 4096, 94, 5e6}}};

/// The flavour with the sizes of the model; null if torchtitan has none.
const Flavour* flavour_of(const ModelSpec& model) {
  constexpr std::int64_t kLlamaTokens = 128256;
  constexpr std::int64_t kQwenTokens = 151936;
  const auto* const found = std::ranges::find_if(kFlavours, [&model](const Flavour& one) {
    return one.family == model.family && one.hidden == model.hidden &&
           one.layers == static_cast<std::int64_t>(model.layers.size()) &&
           model.vocabulary == (one.family == Family::kLlama ? kLlamaTokens : kQwenTokens);
  });
  return found == kFlavours.end() ? nullptr : found;
}

/// Whether the flavour rotates as the model does. Those of Llama scale as Llama 3.1 does.
bool rotates_alike(const Flavour& flavour, const ModelSpec& model) {
  const RotaryScaling own =
      flavour.family == Family::kLlama ? RotaryScaling::kLlama3 : RotaryScaling::kNone;
  return !model.rotary.base ||
         (*model.rotary.base == flavour.rotary_base && model.rotary.scaling == own);
}

/// Names the configuration and the size. All sizes of a model start from one file, of which
/// profiling is switched off; its other switches are named after it.
void add_model(Launch& launch, const ModelSpec& model) {
  const bool llama = model.family == Family::kLlama;
  const std::string name = llama ? "llama3" : "qwen3";
  const Flavour* const flavour = flavour_of(model);
  append_words(launch.command,
               {"--job.config_file", "torchtitan/models/" + name + "/train_configs/" + name + "_" +
                                         (llama ? "8b" : "0.6b") + ".toml"});
  append_words(launch.command,
               {"--model.flavor=" + std::string(flavour == nullptr ? "mine" : flavour->name),
                "--profiling.no_enable_profiling"});
  const std::string_view usual = llama ? "8B" : "0.6B";  // The file names the folder of this one.
  if (flavour == nullptr || flavour->name != usual || model.family == Family::kQwen3Moe) {
    launch.command.emplace_back("--model.hf_assets_path=assets/hf/model");
    launch.code.emplace_back(
        "# --model.hf_assets_path is the folder with the model's tokenizer "
        "(scripts/download_hf_assets.py).");
  }
  if (flavour == nullptr) {
    launch.code.push_back("# torchtitan has no flavour of this size: add one to the dictionary " +
                          name + "_args");
    launch.code.push_back("# in torchtitan/models/" + name + "/__init__.py, here as \"mine\".");
  } else if (!rotates_alike(*flavour, model)) {
    launch.code.emplace_back(
        "# The flavour has another rope_theta or scaling than the model; memory and time do not "
        "depend on them.");
  }
}

}  // namespace

Launch titan_launch(const ModelSpec& model, const ParallelPlan& plan, const LaunchSite& site) {
  Launch launch{.command = torchrun_words(plan, site), .code = {}, .clips = true};
  if (plan.world == 1) {
    launch.command = {"torchrun", "--standalone", "--nproc-per-node", "1"};
  }
  append_words(launch.command, {"-m", "torchtitan.train"});
  add_model(launch, model);
  append_words(launch.command, overrides(plan));
  return launch;
}

}  // namespace headroom::ir::torchtitan
