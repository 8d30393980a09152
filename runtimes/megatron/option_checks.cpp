#include "runtimes/megatron/option_checks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/plan/plan_limits.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::ir {

Error unsupported_megatron(std::string_view value, std::string_view expected,
                           std::string_view fix) {
  return Error::invalid_argument("megatron", value, expected, fix);
}

Status check_megatron_ranks(const ParallelPlan& plan) {
  const std::array<std::pair<std::string_view, std::int64_t>, 3> degrees = {
      {{"tp", plan.mesh.tensor}, {"pp", plan.mesh.pipeline}, {"cp", plan.mesh.context}}};
  std::int64_t product = 1;
  std::string given;
  for (const auto& [name, degree] : degrees) {
    product *= degree;
    if (degree != 1) {
      given += (given.empty() ? "" : ",") + std::string(name) + "=" + std::to_string(degree);
    }
  }
  if (product > 0 && plan.world % product == 0) {
    return ok();
  }
  const std::string fewer = "degrees whose product is " + divisors_text(plan.world);
  const std::int64_t more = product > 0 ? (plan.world / product + 1) * product : 0;
  return Error::invalid_argument("megatron",
                                 given + ": tp x pp x cp is " + std::to_string(product) +
                                     ", which does not divide --gpus " + std::to_string(plan.world),
                                 {},
                                 more > 0 && more <= kMostRanks
                                     ? "use --gpus " + std::to_string(more) + ", or " + fewer
                                     : "use " + fewer);
}

Status check_megatron_pieces(const ParallelPlan& plan) {
  const std::int64_t tensor = plan.mesh.tensor;
  const std::int64_t own = plan.workload.sequence / plan.mesh.context;
  if (own % tensor == 0) {
    return ok();
  }
  const std::int64_t step = tensor * plan.mesh.context * (plan.mesh.context > 1 ? 2 : 1);
  const std::int64_t longer = (plan.workload.sequence / step + 1) * step;
  return Error::invalid_argument(
      "megatron",
      "sequence-parallel with tp=" + std::to_string(tensor) + " and " + std::to_string(own) +
          " tokens of a sequence on each rank",
      "a number of tokens that tp divides",
      "use --seq " + std::to_string(longer) + ", or leave out sequence-parallel");
}

namespace {

/// Rows and columns of the matrices that a layer multiplies in FP8 on one rank.
std::vector<std::int64_t> product_widths(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t cut = plan.mesh.tensor;
  std::vector<std::int64_t> widths{model.hidden};
  if (const auto& latent = model.latent) {
    const std::int64_t query = latent->nope_dim + latent->rope_dim;
    widths.insert(widths.end(), {latent->q_rank, latent->kv_rank,
                                 latent->kv_rank + latent->rope_dim, model.heads * query / cut,
                                 model.heads * (latent->nope_dim + latent->v_dim) / cut,
                                 model.heads * latent->v_dim / cut});
  } else {
    widths.insert(widths.end(), {model.heads * model.head_dim / cut,
                                 (model.heads + 2 * model.kv_heads) * model.head_dim / cut});
  }
  if (std::ranges::any_of(model.layers,
                          [&model](const LayerSpec& layer) { return !model.moe || !layer.moe; })) {
    widths.push_back(model.ffn / cut);
  }
  if (model.moe) {
    const std::int64_t own = plan.mesh.expert_tensor > 0 ? plan.mesh.expert_tensor : cut;
    widths.insert(widths.end(), {model.moe->expert_ffn / own, model.moe->shared_ffn / cut});
  }
  return widths;
}

}  // namespace

Status check_megatron_fp8(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (megatron.fp8 == MegatronFp8::kNone) {
    return ok();
  }
  const std::string recipe =
      "fp8-recipe=" + std::string(word_of(megatron_fp8_words(), megatron.fp8));
  if (plan.precision != Precision::kBf16Master) {
    return unsupported_megatron(
        recipe + " with precision=" + std::string(word_of(precision_words(), plan.precision)),
        "--precision bf16-master", "use --precision bf16-master");
  }
  if (!megatron.transformer_engine) {
    return unsupported_megatron(recipe + " with transformer-engine=no",
                                "Transformer Engine's modules, which the 8-bit recipes are part of",
                                "leave out fp8-recipe or transformer-engine=no");
  }
  if (model.moe && !megatron.grouped_gemm) {
    return unsupported_megatron(recipe + " with grouped-gemm=no", "grouped-gemm=yes",
                                "leave out fp8-recipe or grouped-gemm=no");
  }
  const bool again = megatron.recompute != MegatronRecompute::kNone;
  if (again && megatron.fp8 == MegatronFp8::kDelayed) {
    return unsupported_megatron(
        recipe + " with recompute",
        "another recipe: recomputation would update the delayed scales twice",
        "use fp8-recipe=tensorwise, or leave out recompute");
  }
  const bool micro = megatron.fp8 == MegatronFp8::kMxfp8;
  const std::int64_t parts =
      plan.mesh.context * (megatron.sequence_parallel ? plan.mesh.tensor : 1);
  const std::int64_t tokens = plan.workload.micro_batch * plan.workload.sequence / parts;
  const std::int64_t rows = micro ? 32 : 8;
  if (tokens % rows != 0) {
    return unsupported_megatron(recipe + " on " + std::to_string(tokens) + " tokens per rank",
                                "a number of tokens that is a multiple of " + std::to_string(rows),
                                "change --seq or --micro-batch");
  }
  const std::int64_t block = micro ? 32 : 16;
  for (const std::int64_t width : product_widths(model, plan)) {
    if (width % block != 0) {
      return unsupported_megatron(recipe + " on matrices of " + std::to_string(width) + " columns",
                                  "widths that are multiples of " + std::to_string(block),
                                  "leave out fp8-recipe, or change tp");
    }
  }
  return ok();
}

Status check_megatron_fp8_device(MegatronFp8 recipe, const DeviceTraits& device) {
  struct Least {
    int major = 0;
    int minor = 0;
  };
  Least least;
  switch (recipe) {
    case MegatronFp8::kNone:
      return ok();
    case MegatronFp8::kDelayed:
    case MegatronFp8::kTensorwise:
      least = {.major = 8, .minor = 9};
      break;
    case MegatronFp8::kBlockwise:
      least = {.major = 9};
      break;
    case MegatronFp8::kMxfp8:
      least = {.major = 10};
      break;
  }
  const bool enough = device.compute_major > least.major ||
                      (device.compute_major == least.major && device.compute_minor >= least.minor);
  if (!enough) {
    return Error::invalid_argument(
        "megatron", "fp8-recipe=" + std::string(word_of(megatron_fp8_words(), recipe)),
        "a GPU of compute capability " + std::to_string(least.major) + "." +
            std::to_string(least.minor) + " or later",
        "leave out fp8-recipe");
  }
  if (recipe == MegatronFp8::kBlockwise && device.compute_major > 9) {
    return Error::invalid_argument(
        "megatron", "fp8-recipe=blockwise",
        "a GPU of compute capability 9.0: later ones only emulate this recipe",
        "use fp8-recipe=mxfp8");
  }
  return ok();
}

Status check_megatron_fp8_parameters(const MegatronPlan& megatron) {
  if (!megatron.fp8_parameters) {
    return ok();
  }
  struct Lack {
    bool has;
    std::string_view value;
    std::string_view expected;
  };
  const std::array<Lack, 5> lacks = {{
      {megatron.fp8 == MegatronFp8::kNone, "without fp8-recipe", "fp8-recipe as well"},
      {!megatron.distributed_optimizer, "without distributed-optimizer",
       "distributed-optimizer as well: the weights are cast from its fp32 copies"},
      {megatron.precision_aware, "with precision-aware",
       "a plan without precision-aware, with fp32 copies of the parameters"},
      {megatron.mtp_layers > 0, "with mtp-layers", "mtp-layers=0"},
      {!(megatron.offload_modules == MegatronOffload{}), "with offload-modules",
       "a plan without offload-modules"},
  }};
  for (const Lack& lack : lacks) {
    if (lack.has) {
      return unsupported_megatron("fp8-param-gather " + std::string(lack.value),
                                  std::string(lack.expected),
                                  "leave out fp8-param-gather: weights then stay in 16 bits");
    }
  }
  return ok();
}

Status check_megatron_offload(const ModelSpec& model, const MegatronPlan& megatron) {
  const MegatronOffload& parts = megatron.offload_modules;
  if (parts == MegatronOffload{}) {
    const bool idle = megatron.least_offloaded != MegatronPlan{}.least_offloaded;
    return idle ? unsupported_megatron("min-offloaded-tensor-size", "offload-modules as well",
                                       "leave out min-offloaded-tensor-size")
                : ok();
  }
  const bool whole = megatron.recompute == MegatronRecompute::kFullUniform ||
                     megatron.recompute == MegatronRecompute::kFullBlock;
  const MegatronModules again = recomputed_modules(megatron);
  const bool experts = parts.expert_up || parts.expert_activation;
  struct Lack {
    bool has;
    std::string_view value;
    std::string_view expected;
    std::string_view fix;
  };
  const std::array<Lack, 10> lacks = {
      {{!megatron.transformer_engine, "offload-modules with transformer-engine=no",
        "Transformer Engine's modules", "leave out offload-modules or transformer-engine=no"},
       {whole, "offload-modules with recompute=uniform or block", "layers that are not recomputed",
        "use recompute=selective, or leave out offload-modules"},
       {parts.attention_projection && !parts.core_attention, "offload-modules=attn_proj",
        "core_attn as well: its backward reads the tensor that attn_proj saves", "add +core_attn"},
       {parts.attention_norm && !model.latent, "offload-modules=attn_norm",
        "latent attention: elsewhere the norm is a part of the projection", "use qkv_linear"},
       {(parts.mlp_norm || experts) && !model.moe,
        "offload-modules=mlp_norm, expert_fc1 or moe_act", "a model with experts",
        "use qkv_linear, core_attn or attn_proj"},
       {experts && !megatron.grouped_gemm,
        "offload-modules=expert_fc1 or moe_act with grouped-gemm=no", "grouped-gemm=yes",
        "leave out these modules or grouped-gemm=no"},
       {experts && again.moe, "offload-modules=expert_fc1 or moe_act with recompute-modules=moe",
        "experts that are not recomputed", "leave out these modules or recompute-modules=moe"},
       {parts.qkv_linear && again.latent_up && !parts.attention_projection,
        "offload-modules=qkv_linear with recompute-modules=mla_up_proj",
        "attn_proj as well: Megatron-Core finds the pass to recompute by its backward",
        "add +core_attn+attn_proj"},
       {megatron.fp8 != MegatronFp8::kNone &&
            (parts.qkv_linear || parts.attention_projection || parts.expert_up),
        "offload-modules=qkv_linear, attn_proj or expert_fc1 with fp8-recipe",
        "modules without 8-bit weights, which would come back from the host in 16 bits",
        "use core_attn, moe_act or norms"},
       {parts.core_attention && megatron.attention == MegatronAttention::kUnfused,
        "offload-modules=core_attn with attention=unfused", "attention=fused or flash",
        "use attention=fused or flash"}}};
  for (const Lack& lack : lacks) {
    if (lack.has) {
      return unsupported_megatron(std::string(lack.value), std::string(lack.expected),
                                  std::string(lack.fix));
    }
  }
  return ok();
}

Status check_megatron_layer_offload(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (megatron.offloaded_layers == 0) {
    return ok();
  }
  const std::string key = "cpu-offloading-num-layers=" + std::to_string(megatron.offloaded_layers);
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  struct Lack {
    bool has;
    std::string value;
    std::string expected;
    std::string fix;
  };
  const std::array<Lack, 5> lacks = {
      {{megatron.offloaded_layers >= layers, key,
        "fewer layers than the model's " + std::to_string(layers),
        layers > 1 ? "use cpu-offloading-num-layers=" + std::to_string(layers - 1) + " or less"
                   : "leave out cpu-offloading-num-layers"},
       {plan.mesh.pipeline > 1, key + " with pp=" + std::to_string(plan.mesh.pipeline), "pp=1",
        "use offload-modules, or pp=1"},
       {megatron.recompute != MegatronRecompute::kNone,
        key + " with recompute=" +
            std::string(word_of(megatron_recompute_words(), megatron.recompute)),
        "layers that are not recomputed", "leave out cpu-offloading-num-layers or recompute"},
       {!(megatron.offload_modules == MegatronOffload{}), key + " with offload-modules",
        "either whole layers or modules on the host",
        "leave out cpu-offloading-num-layers or offload-modules"},
       {model.moe && !megatron.grouped_gemm, key + " with grouped-gemm=no",
        "grouped-gemm=yes: Megatron-Core cannot copy the configuration of other experts",
        "leave out cpu-offloading-num-layers or grouped-gemm=no"}}};
  for (const Lack& lack : lacks) {
    if (lack.has) {
      return unsupported_megatron(lack.value, lack.expected, lack.fix);
    }
  }
  return ok();
}

Status check_megatron_special_layers(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const bool windows = std::ranges::any_of(
      model.layers, [](const LayerSpec& layer) { return layer.window.has_value(); });
  const bool biases = model.moe && model.moe->expert_bias;
  const std::int64_t expert_tensor = expert_tensor_of(plan.mesh);
  const bool fused = megatron.attention == MegatronAttention::kFused;
  struct Conflict {
    bool has;
    std::string got;
    std::string_view wanted;
    std::string_view fix;
  };
  const std::string attention(word_of(megatron_attention_words(), megatron.attention));
  const bool special = windows || model.attention_sinks || biases;
  const bool fusible = model.moe && model.gated_mlp && !biases && megatron.grouped_gemm &&
                       megatron.fp8 == MegatronFp8::kMxfp8;
  const std::array<Conflict, 10> conflicts = {
      {{special && !megatron.transformer_engine, "transformer-engine=no",
        "transformer-engine=yes, for this model's sliding windows, attention sinks or experts with "
        "biases",
        "leave out transformer-engine=no"},
       {(windows || model.attention_sinks) && plan.mesh.context > 1,
        "cp=" + std::to_string(plan.mesh.context),
        "cp=1, because the model has sliding windows or attention sinks", "use cp=1"},
       {model.attention_sinks && !fused, "attention=" + attention,
        "attention=fused, the only kernel with attention sinks", "use attention=fused"},
       {model.attention_sinks && plan.precision == Precision::kFp32, "--precision fp32",
        "bf16 or fp16: the fused kernel with attention sinks takes no fp32",
        "use --precision bf16"},
       {windows && megatron.attention == MegatronAttention::kFlash, "attention=flash",
        "attention=fused or unfused, because the model has sliding windows", "use attention=fused"},
       {windows && fused && model.dropout.attention > 0, "attention=fused",
        "attention=unfused, because the model has sliding windows and attention dropout",
        "use attention=unfused"},
       {biases && expert_tensor > 1, "etp=" + std::to_string(expert_tensor),
        "etp=1, because the experts have biases", "use etp=1"},
       {biases && !megatron.grouped_gemm, "grouped-gemm=no",
        "grouped-gemm=yes, because the experts have biases", "leave out grouped-gemm=no"},
       {biases && megatron.fp8 != MegatronFp8::kNone, "fp8-recipe",
        "a plan without it, because the experts have biases", "leave out fp8-recipe"},
       {megatron.fused_experts && !fusible, "use-transformer-engine-op-fuser",
        "fp8-recipe=mxfp8 and gated experts without biases in grouped products",
        "leave out use-transformer-engine-op-fuser"}}};
  for (const Conflict& conflict : conflicts) {
    if (conflict.has) {
      return unsupported_megatron(conflict.got, std::string(conflict.wanted),
                                  std::string(conflict.fix));
    }
  }
  return ok();
}

Status check_megatron_exchange_overlap(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (megatron.delayed_weight_gradients &&
      (!megatron.overlap_expert_exchange || !megatron.accumulation_fusion)) {
    return unsupported_megatron(
        "delay-wgrad-compute",
        "overlap-moe-expert-parallel-comm and gradient-accumulation-fusion=yes",
        "leave out delay-wgrad-compute");
  }
  if (megatron.delayed_weight_gradients && megatron.tp_comm_overlap) {
    return unsupported_megatron("delay-wgrad-compute", "tp-comm-overlap=no",
                                "leave out delay-wgrad-compute");
  }
  if (!megatron.overlap_expert_exchange) {
    return ok();
  }
  struct Need {
    bool missing;
    std::string_view what;
  };
  const std::int64_t chunks =
      chunks_per_stage(plan, static_cast<std::int64_t>(model.layers.size()));
  const bool full = megatron.recompute == MegatronRecompute::kFullUniform ||
                    megatron.recompute == MegatronRecompute::kFullBlock;
  const std::array<Need, 9> needs = {
      {{!model.moe || plan.mesh.expert == 1, "a model with experts, and ep=2 or more"},
       {megatron.dispatcher == MegatronDispatcher::kAllGather,
        "dispatcher=alltoall or dispatcher=hybridep"},
       {plan.mesh.pipeline > 1 && chunks == 1,
        "several chunks on each stage (layers-per-virtual-stage)"},
       {megatron.shared_expert_overlap, "shared-expert-overlap=no"},
       {full, "recompute=none or recompute=selective"},
       {!megatron.transformer_engine, "transformer-engine=yes"},
       {plan.precision == Precision::kFp32, "--precision bf16 or fp16"},
       {megatron.mtp_layers > 0, "mtp-layers=0: prediction layers are not modelled with it"},
       {!(megatron.offload_modules == MegatronOffload{}) || megatron.offloaded_layers > 0,
        "no offloading of activations, which is not modelled with it"}}};
  for (const Need& need : needs) {
    if (need.missing) {
      return unsupported_megatron("overlap-moe-expert-parallel-comm", need.what,
                                  "leave out overlap-moe-expert-parallel-comm");
    }
  }
  return ok();
}

Status check_micro_batch_groups(const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const bool interleaved = is_interleaved(plan);
  // Source of the second: megatron/core/model_parallel_config.py, __post_init__.
  for (const auto& [name, given] :
       {std::pair("micro-batch-group", megatron.micro_batch_group > 0),
        std::pair("overlap-p2p-communication-warmup-flush", megatron.overlap_warmup_flush)}) {
    if (given && !interleaved) {
      constexpr std::string_view kNeeds =
          ", which needs layers-per-virtual-stage, or a pipeline-layout with several chunks per "
          "stage";
      return Error::invalid_argument("megatron", "has " + std::string(name) + std::string(kNeeds),
                                     {}, "leave out " + std::string(name));
    }
  }
  const std::int64_t group =
      megatron.micro_batch_group > 0 ? megatron.micro_batch_group : plan.mesh.pipeline;
  if (group < plan.mesh.pipeline) {
    return unsupported_megatron("micro-batch-group=" + std::to_string(group),
                                "pp=" + std::to_string(plan.mesh.pipeline) + " or more");
  }
  const std::int64_t rest = plan.workload.accumulation % group;
  if (interleaved && rest != 0 &&
      (rest < plan.mesh.pipeline || plan.workload.accumulation < group)) {
    return Error::invalid_argument(
        "accumulation", std::to_string(plan.workload.accumulation),
        "a multiple of " + std::to_string(group) + " for interleaved stages, or at least " +
            std::to_string(plan.mesh.pipeline) + " more than such a multiple",
        "use --accumulation " + std::to_string(group));
  }
  return ok();
}

}  // namespace headroom::ir
