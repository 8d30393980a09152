#include "runtimes/megatron/check.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "runtimes/interface/idle_options.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/megatron/option_checks.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/pipeline_layout.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::ir {
namespace {

/// A size that a degree has to divide.
struct Division {
  std::string_view degree;
  std::int64_t size = 1;
  std::string_view what;
  std::int64_t count = 0;
};

Status check_division(const Division& division) {
  if (division.size > 0 && division.count % division.size == 0) {
    return ok();
  }
  return Error::invalid_argument(
      "megatron", std::string(division.degree) + "=" + std::to_string(division.size),
      division.what == "GPUs"
          ? "a divisor of --gpus " + std::to_string(division.count)
          : "a divisor of the " + std::to_string(division.count) + " " + std::string(division.what),
      division.what == "GPUs" ? "use degrees whose product is " + divisors_text(division.count)
                              : "use " + divisors_text(division.count));
}

template <std::size_t kCount>
Status first_fault(const std::array<Status, kCount>& findings) {
  const auto fault = std::ranges::find_if(findings, [](const Status& each) { return !each; });
  return fault == findings.end() ? ok() : *fault;
}

/// A layout has chunks for all stages and all of the model's layers; no other option may assign
/// layers.
Status check_layout(const ParallelPlan& plan, std::int64_t layers) {
  const MegatronPlan& megatron = megatron_of(plan);
  const auto fault = [&](const std::string& expected) {
    return Error::invalid_argument("megatron", "pipeline-layout=" + megatron.pipeline_layout,
                                   expected);
  };
  const Result<PipelineLayout> layout = parse_pipeline_layout(megatron.pipeline_layout);
  if (!layout) {
    return fault(layout.error().wanted);
  }
  const auto chunks = static_cast<std::int64_t>(layout->layers.size());
  const std::int64_t dealt = std::accumulate(layout->layers.begin(), layout->layers.end(), 0LL);
  MegatronPlan even = megatron;
  deal_evenly(even);
  even.pipeline_layout = megatron.pipeline_layout;
  if (!(even == megatron)) {
    return fault(
        "a plan without the other keys that distribute layers: first-stage-layers, "
        "last-stage-layers, account-for-embedding, account-for-loss, layers-per-virtual-stage");
  }
  if (plan.mesh.pipeline == 1) {
    return fault("pp=2 or more as well");
  }
  if (chunks % plan.mesh.pipeline != 0) {
    return fault("a number of chunks that is a multiple of pp=" +
                 std::to_string(plan.mesh.pipeline) + "; it has " + std::to_string(chunks));
  }
  if (dealt != layers) {
    return fault("as many layers (t) as the model, " + std::to_string(layers) + "; it has " +
                 std::to_string(dealt));
  }
  return layout->mtp_layers == megatron.mtp_layers
             ? ok()
             : fault("one m for each layer of mtp-layers=" + std::to_string(megatron.mtp_layers));
}

/// Every stage has layers, and all stages between the first and the last have the same number.
Status check_stages(const ParallelPlan& plan, std::int64_t layers) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (!megatron.pipeline_layout.empty()) {
    return check_layout(plan, layers);
  }
  const bool uneven = megatron.first_stage_layers > 0 || megatron.last_stage_layers > 0;
  const bool accounts = megatron.account_for_embedding || megatron.account_for_loss;
  if (!uneven && !accounts) {
    Status even = check_division({"pp", plan.mesh.pipeline, "layers", layers});
    if (!even) {
      return Error::invalid_argument(even.error().key, even.error().got, even.error().wanted,
                                     "distribute them with first-stage-layers, last-stage-layers, "
                                     "account-for-embedding, account-for-loss or pipeline-layout");
    }
    return even;
  }
  if (uneven && (accounts || megatron.layers_per_chunk > 0)) {
    return Error::invalid_argument(
        "megatron",
        "takes first-stage-layers and last-stage-layers only without account-for-embedding, "
        "account-for-loss and layers-per-virtual-stage",
        {}, "leave out the first two keys or the others");
  }
  if (plan.mesh.pipeline == 1) {
    return Error::invalid_argument("megatron",
                                   "distributes layers over pipeline stages, but has pp=1", {},
                                   "add pp=2 or more, or leave out the keys for stages");
  }
  if (even_stage_layers(plan, layers) == 0) {
    return Error::invalid_argument("megatron", "pp=" + std::to_string(plan.mesh.pipeline),
                                   "a number of stages with which the " + std::to_string(layers) +
                                       " layers leave equally many for each stage between the "
                                       "first and the last",
                                   "change pp, first-stage-layers or last-stage-layers");
  }
  for (const std::int64_t stage : {std::int64_t{0}, plan.mesh.pipeline - 1}) {
    for (std::int64_t chunk = 0; chunk < chunks_per_stage(plan, layers); ++chunk) {
      if (chunk_layers(plan, layers, {.stage = stage, .chunk = chunk}).count < 0) {
        return Error::invalid_argument("megatron",
                                       "counts the embedding or the loss as a layer, but the first "
                                       "or the last chunk has no layer to give up for it",
                                       {}, "use fewer stages or chunks");
      }
    }
  }
  return ok();
}

Status check_degrees(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const std::int64_t tensor = plan.mesh.tensor;
  if (Status whole = check_megatron_ranks(plan); !whole) {
    return whole;
  }
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t stage = even_stage_layers(plan, layers);
  const std::int64_t pieces = plan.mesh.context > 1 ? 2 * plan.mesh.context : 1;
  return first_fault(std::array<Status, 5>{
      check_stages(plan, layers), check_division({"tp", tensor, "attention heads", model.heads}),
      check_division({"tp", tensor, "key and value heads", model.kv_heads}),
      megatron.layers_per_chunk > 0
          ? check_division(
                {"layers-per-virtual-stage", megatron.layers_per_chunk, "layers of a stage", stage})
          : ok(),
      plan.workload.sequence % pieces == 0
          ? ok()
          : Error::invalid_argument(
                "seq", std::to_string(plan.workload.sequence),
                "a multiple of " + std::to_string(pieces) +
                    ": context parallelism cuts a sequence into two pieces for each rank of cp=" +
                    std::to_string(plan.mesh.context))});
}

Status check_widths(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const std::int64_t tensor = plan.mesh.tensor;
  if (megatron.sequence_parallel) {
    if (Status pieces = check_megatron_pieces(plan); !pieces) {
      return pieces;
    }
  }
  if (!model.moe) {
    return plan.mesh.expert == 1
               ? check_division({"tp", tensor, "columns of the MLP", model.ffn})
               : Error::invalid_argument("megatron", "ep=" + std::to_string(plan.mesh.expert),
                                         "ep=1, because the model has no experts");
  }
  const std::int64_t expert_tensor = plan.mesh.expert_tensor > 0 ? plan.mesh.expert_tensor : tensor;
  if (tensor > 1 && !megatron.sequence_parallel) {
    return Error::invalid_argument(
        "megatron", "tp=" + std::to_string(tensor),
        "sequence-parallel as well: Megatron-Core requires it for experts with tp",
        "add sequence-parallel to --megatron");
  }
  return first_fault(std::array<Status, 5>{
      check_division({"tp", tensor, "columns of the dense MLP", model.ffn}),
      check_division({"tp", tensor, "columns of the shared expert", model.moe->shared_ffn}),
      check_division({"ep", plan.mesh.expert, "experts", model.moe->experts}),
      check_division({"etp", expert_tensor, "columns of an expert", model.moe->expert_ffn}),
      check_division({"etp x ep x pp", expert_tensor * plan.mesh.expert * plan.mesh.pipeline,
                      "GPUs", plan.world})});
}

/// The error for options that have no effect without other options.
Status check_needs(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const bool full = megatron.recompute == MegatronRecompute::kFullUniform ||
                    megatron.recompute == MegatronRecompute::kFullBlock;
  const bool overlaps = megatron.distributed_optimizer && megatron.overlap_grad_reduce;
  const MegatronPlan usual;
  struct Need {
    bool missing;
    std::string_view key;
    std::string_view needs;
  };
  const bool usual_dispatcher = megatron.dispatcher == usual.dispatcher;
  const bool gathers = megatron.dispatcher == MegatronDispatcher::kAllGather;
  const bool hybrid = megatron.dispatcher == MegatronDispatcher::kHybridEp;
  const std::int64_t expert_tensor = expert_tensor_of(plan.mesh);
  const bool spreads = plan.mesh.expert > 1 && !megatron.capacity_factor;
  const bool shares = model.moe && model.moe->shared_ffn > 0;
  const std::array<Need, 15> needs = {
      {{megatron.overlap_param_gather && !overlaps, "overlap-param-gather",
        "distributed-optimizer and overlap-grad-reduce"},
       {megatron.tp_comm_overlap && !(megatron.sequence_parallel && megatron.transformer_engine),
        "tp-comm-overlap", "sequence-parallel and Transformer Engine's layers"},
       {megatron.recompute_layers != usual.recompute_layers && !full, "recompute-layers",
        "recompute=uniform or recompute=block"},
       {!(megatron.recompute_modules == MegatronModules{}) &&
            megatron.recompute != MegatronRecompute::kSelective,
        "recompute-modules", "recompute=selective"},
       {megatron.precision_aware && !megatron.distributed_optimizer, "precision-aware",
        "distributed-optimizer"},
       {megatron.bf16_moments && !megatron.precision_aware, "bf16-moments", "precision-aware"},
       {megatron.optimizer_offload > 0 && (!megatron.precision_aware || megatron.bf16_moments),
        "optimizer-offload", "precision-aware without bf16-moments"},
       {megatron.layers_per_chunk > 0 && plan.mesh.pipeline == 1, "layers-per-virtual-stage",
        "pp of 2 or more"},
       {!model.moe && (plan.mesh.expert_tensor > 0 || megatron.capacity_factor ||
                       megatron.permute_fusion || !megatron.aux_loss || !megatron.grouped_gemm ||
                       megatron.sinkhorn || megatron.router_fp32 || !usual_dispatcher),
        "etp, capacity-factor, permute-fusion, aux-loss, grouped-gemm, sinkhorn, router-fp32 or "
        "dispatcher",
        "a model with experts"},
       {megatron.sinkhorn && megatron.aux_loss, "sinkhorn", "aux-loss=no"},
       {gathers && (megatron.capacity_factor || megatron.permute_fusion), "dispatcher=allgather",
        "a plan without capacity-factor and permute-fusion"},
       {hybrid && (plan.mesh.expert == 1 || expert_tensor > 1), "dispatcher=hybridep",
        "ep of 2 or more and etp=1"},
       {megatron.shared_expert_overlap && (!shares || !usual_dispatcher), "shared-expert-overlap",
        "a model with shared experts, and dispatcher=alltoall"},
       {megatron.shared_expert_overlap && megatron.recompute_modules.shared_experts,
        "shared-expert-overlap", "a plan without recompute-modules=shared_experts"},
       {megatron.expert_load != usual.expert_load && !spreads, "expert-load",
        "ep of 2 or more without capacity-factor"}}};
  for (const Need& need : needs) {
    if (need.missing) {
      return Error::invalid_argument(
          "megatron", "has " + std::string(need.key) + ", which needs " + std::string(need.needs),
          {}, "add what is missing, or leave out the key");
    }
  }
  return ok();
}

/// The error for models that the layer specification cannot express.
Status check_model(const ModelSpec& model) {
  const bool gelu =
      model.activation == Activation::kGelu || model.activation == Activation::kGeluTanh ||
      model.activation == Activation::kGeluNew || model.activation == Activation::kGeluFast;
  struct Lack {
    bool has;
    std::string_view what;
  };
  const std::array<Lack, 11> lacks = {
      {{model.task != Task::kLanguage, "a head that classifies"},
       {model.encoder.has_value() || model.architecture != Architecture::kCausalLm, "an encoder"},
       {model.norm_placement != NormPlacement::kPre, "norms behind attention or MLP"},
       {model.residual != ResidualForm::kSequential, "attention and MLP side by side"},
       {model.position == PositionKind::kAlibi || model.position == PositionKind::kRelativeBias,
        "positions that bias the scores"},
       {model.embedding_norm, "a norm behind the embedding"},
       {model.gated_mlp ? model.activation != Activation::kSilu : !gelu,
        "an activation other than SwiGLU and GELU"},
       {model.attention_softcap > 0 || model.logit_softcap > 0, "capped scores or logits"},
       {model.scales_embedding || model.scales_residual || model.scales_logits,
        "scaled embeddings, residuals or logits"},
       {model.head_bias || model.head_transform || model.embedding_dim != model.hidden,
        "a head or an embedding of another form"},
       {model.moe && model.moe->shared_gate, "a gate on the shared expert"}}};
  for (const Lack& lack : lacks) {
    if (lack.has) {
      return Error::invalid_argument("megatron",
                                     "is not supported for a model with " + std::string(lack.what),
                                     {}, "leave out --megatron, or use --fsdp or --zero 3");
    }
  }
  return ok();
}

/// The heads must be divisible among the ranks that exchange them.
Status check_exchange(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t ranks = plan.mesh.tensor * plan.mesh.context;
  return first_fault(std::array<Status, 2>{
      check_division({"tp x cp", ranks, "attention heads", model.heads}),
      check_division({"tp x cp", ranks, "key and value heads", model.kv_heads})});
}

/// Hierarchical context parallelism has two levels: groups of ranks that exchange heads, and a ring
/// of these groups.
Status check_levels(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const std::int64_t ranks = megatron.context_exchange_ranks;
  if (ranks <= 1) {
    return ok();
  }
  const std::string value = "cp-exchange-ranks=" + std::to_string(ranks);
  if (plan.mesh.context % ranks != 0 || plan.mesh.context == ranks) {
    return unsupported_megatron(
        value, "a divisor of cp=" + std::to_string(plan.mesh.context) + " below cp itself");
  }
  if (megatron.context_exchange != MegatronContext::kRing ||
      megatron.attention != MegatronAttention::kFused || model.latent) {
    return unsupported_megatron(
        value + " with cp-comm-type=a2a, latent attention, or attention=flash or unfused",
        "cp-comm-type=p2p and attention=fused, in a model without latent attention",
        "leave out cp-exchange-ranks");
  }
  return first_fault(std::array<Status, 2>{
      check_division(
          {"tp x cp-exchange-ranks", plan.mesh.tensor * ranks, "attention heads", model.heads}),
      check_division({"tp x cp-exchange-ranks", plan.mesh.tensor * ranks, "key and value heads",
                      model.kv_heads})});
}

/// Layers of Megatron-Core's own modules have apex's LayerNorm and unfused attention with one
/// kernel for mask and softmax. Source: megatron/core/fusions/fused_softmax.py,
/// is_kernel_available.
Status check_local(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (megatron.transformer_engine) {
    return ok();
  }
  constexpr std::int64_t kLongest = 4096;
  constexpr std::int64_t kShortest = 16;
  const std::int64_t scores = plan.workload.micro_batch * model.heads / plan.mesh.tensor;
  const bool fits = plan.precision != Precision::kFp32 && plan.workload.sequence > kShortest &&
                    plan.workload.sequence <= kLongest && plan.workload.sequence % 4 == 0 &&
                    scores % 4 == 0;
  struct Lack {
    bool has;
    std::string_view value;
    std::string_view expected;
  };
  const std::array<Lack, 7> lacks = {
      {{megatron.attention != MegatronAttention::kUnfused, "transformer-engine=no",
        "attention=unfused as well, the only attention of Megatron-Core's own modules"},
       {plan.mesh.context > 1, "transformer-engine=no with cp", "cp=1"},
       {model.norm != NormKind::kLayer || model.qk_norm != QkNorm::kNone,
        "transformer-engine=no for this model's norms",
        "a model with LayerNorm, for which apex has a kernel, and without norms on queries and "
        "keys"},
       {model.latent || megatron.mtp_layers > 0,
        "transformer-engine=no for latent attention or mtp-layers",
        "Transformer Engine's layers for these"},
       {model.moe && (megatron.grouped_gemm || model.moe->shared_ffn > 0),
        "transformer-engine=no for these experts",
        "grouped-gemm=no as well, and no shared experts"},
       {megatron.recompute_modules.norms, "transformer-engine=no with recompute-modules=layernorm",
        "recompute-modules=core_attn or mlp"},
       {!fits, "transformer-engine=no",
        "a 16-bit --precision, --seq from 17 to 4096 that is a multiple of 4, and --micro-batch x "
        "heads / tp that is a multiple of 4: the fused softmax kernel needs them"}}};
  for (const Lack& lack : lacks) {
    if (lack.has) {
      return unsupported_megatron(std::string(lack.value), std::string(lack.expected),
                                  "leave out transformer-engine=no");
    }
  }
  return ok();
}

/// The error for a rank order with pipeline stages before data-parallel replicas.
Status check_order(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (!megatron.pipeline_before_data) {
    return ok();
  }
  const std::int64_t dense = plan.mesh.tensor * plan.mesh.context;
  const std::int64_t cut = expert_tensor_of(plan.mesh);
  if (!has_one_pipeline(model, plan)) {
    return unsupported_megatron(
        "use-tp-pp-dp-mapping with etp x ep = " + std::to_string(cut * plan.mesh.expert),
        "etp x ep equal to tp x cp, which is " + std::to_string(dense),
        "leave out use-tp-pp-dp-mapping");
  }
  if (megatron.optimizer_instances > 1) {
    return unsupported_megatron("use-tp-pp-dp-mapping with optimizer-instances=" +
                                    std::to_string(megatron.optimizer_instances),
                                "optimizer-instances=1",
                                "leave out use-tp-pp-dp-mapping or optimizer-instances");
  }
  return ok();
}

/// The error for what attention's kernels and its exchanges among ranks do not support.
Status check_attention_forms(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const bool flash = megatron.attention == MegatronAttention::kFlash;
  if (megatron.context_exchange == MegatronContext::kAllToAll) {
    const Status heads = check_exchange(model, plan);
    if (!heads) {
      return heads;
    }
  }
  if (const Status levels = check_levels(model, plan); !levels) {
    return levels;
  }
  if (megatron.attention == MegatronAttention::kUnfused && plan.mesh.context > 1) {
    return unsupported_megatron("attention=unfused with cp=" + std::to_string(plan.mesh.context),
                                "attention=fused or flash, which support context parallelism",
                                "use attention=fused");
  }
  const std::int64_t head =
      model.latent ? model.latent->nope_dim + model.latent->rope_dim : std::int64_t{model.head_dim};
  if (megatron.attention != MegatronAttention::kUnfused && head % 8 != 0) {
    return unsupported_megatron(
        std::string(flash ? "attention=flash" : "attention=fused") + " with head size " +
            std::to_string(head),
        "a head size that is a multiple of 8, which Transformer Engine's kernels require",
        "use attention=unfused");
  }
  if (flash && model.latent &&
      model.latent->nope_dim + model.latent->rope_dim != model.latent->v_dim) {
    return unsupported_megatron(
        "attention=flash for heads whose values have another size than their keys",
        "attention=fused or unfused", "use attention=fused");
  }
  return ok();
}

/// The error for what multi-token prediction does not support.
Status check_prediction_forms(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  // Source: megatron/core/transformer/multi_token_prediction.py, _checkpointed_forward.
  if (megatron.mtp_layers > 0 && megatron.recompute == MegatronRecompute::kFullUniform &&
      megatron.recompute_layers != 1) {
    return unsupported_megatron(
        "recompute-layers=" + std::to_string(megatron.recompute_layers) + " with mtp-layers",
        "recompute-layers=1, which Megatron-Core requires with multi-token prediction",
        "use recompute-layers=1, or recompute=block");
  }
  if (megatron.mtp_layers > 0 && megatron.recompute == MegatronRecompute::kFullUniform &&
      megatron.fp8 != MegatronFp8::kNone) {
    return unsupported_megatron(
        "recompute=uniform with mtp-layers and fp8-recipe",
        "recompute=block instead: Transformer Engine's checkpoint passes no gradient to keyword "
        "arguments, and multi-token prediction passes its hidden states so",
        "use recompute=block");
  }
  const bool unused = model.tied_embeddings && plan.mesh.pipeline > 1 && megatron.mtp_layers > 0;
  if (unused && megatron.overlap_grad_reduce) {
    return unsupported_megatron(
        "overlap-grad-reduce with mtp-layers and tied embeddings on several stages",
        "a plan without overlap-grad-reduce: the embedding of the last stage gets no gradient",
        "leave out overlap-grad-reduce");
  }
  return ok();
}

/// The error for what this model of the runtime does not support.
Status check_forms(const ModelSpec& model, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const MegatronModules& modules = megatron.recompute_modules;
  if (const Status attention = check_attention_forms(model, plan); !attention) {
    return attention;
  }
  if (megatron.precision_aware && plan.precision != Precision::kBf16Master) {
    return unsupported_megatron(
        "precision-aware with precision=" + std::string(word_of(precision_words(), plan.precision)),
        "--precision bf16-master", "use --precision bf16-master");
  }
  if (!megatron.rope_fusion && (model.latent || model.rope_fraction < 1)) {
    return unsupported_megatron(
        "rope-fusion=no with latent attention, or with rotary embedding on a part of each head",
        "rotary embedding on whole heads", "leave out rope-fusion=no");
  }
  if (const Status fp8 = check_megatron_fp8(model, plan); !fp8) {
    return fp8;
  }
  if (const Status offload = check_megatron_offload(model, megatron); !offload) {
    return offload;
  }
  if (const Status layers = check_megatron_layer_offload(model, plan); !layers) {
    return layers;
  }
  if (const Status parameters = check_megatron_fp8_parameters(megatron); !parameters) {
    return parameters;
  }
  if (const Status overlap = check_megatron_exchange_overlap(model, plan); !overlap) {
    return overlap;
  }
  if (megatron.defer_head_gradient) {
    return unsupported_megatron("defer-head-gradient, which is not modelled", "a plan without it",
                                "leave out defer-head-gradient");
  }
  if (const Status local = check_local(model, plan); !local) {
    return local;
  }
  if (!model.moe && (modules.moe || modules.moe_activation || modules.shared_experts)) {
    return unsupported_megatron("recompute-modules=moe, moe_act or shared_experts",
                                "a model with experts", "use core_attn, layernorm or mlp");
  }
  if (const Status predictions = check_prediction_forms(model, plan); !predictions) {
    return predictions;
  }
  if (modules.moe_activation && !megatron.grouped_gemm) {
    return unsupported_megatron("recompute-modules=moe_act with grouped-gemm=no",
                                "grouped-gemm=yes", "leave out moe_act or grouped-gemm=no");
  }
  if (!model.latent && modules.latent_up) {
    return unsupported_megatron("recompute-modules=mla_up_proj", "a model with latent attention",
                                "use core_attn, layernorm or mlp");
  }
  if (modules.moe && (modules.moe_activation || modules.shared_experts || modules.norms)) {
    return unsupported_megatron(
        "recompute-modules=moe together with moe_act, shared_experts or layernorm",
        "either moe or its parts, because moe contains them", "leave out moe or its parts");
  }
  if (const Status order = check_order(model, plan); !order) {
    return order;
  }
  return check_micro_batch_groups(plan);
}

/// The error for options of other runtimes, which would silently have no effect.
Status check_others(const ParallelPlan& plan) {
  constexpr std::array<IdleOption, 11> kIdle = {
      {{"lora", ""},
       {"qlora", ""},
       {"generate", ""},
       {"evaluation", ""},
       {"checkpointing", "use --megatron recompute=uniform, block or selective"},
       {"loss", "use --megatron cross-entropy-fusion=native or te"},
       {"attention", "use --megatron attention=fused, flash or unfused"},
       {"liger", ""},
       {"padded", ""},
       {"keep-logits", ""},
       {"keep-batch", ""}}};
  if (const std::optional<Error> idle = idle_option(plan, kIdle, "Megatron-Core")) {
    return *idle;
  }
  const bool whole = plan.optimizer.form == OptimizerForm::kForeach ||
                     plan.optimizer.form == OptimizerForm::kFused;
  if (plan.optimizer.kind != OptimizerKind::kAdamW || !whole) {
    return Error::invalid_argument("optimizer", word_of(optimizer_words(), plan.optimizer),
                                   "adamw, which is FusedAdam in Megatron-Core",
                                   "use --optimizer adamw");
  }
  const std::array<Precision, 3> known = {Precision::kBf16Master, Precision::kFp16Master,
                                          Precision::kFp32};
  if (std::ranges::find(known, plan.precision) == known.end()) {
    return Error::invalid_argument("precision", word_of(precision_words(), plan.precision),
                                   "bf16-master, fp16-master or fp32",
                                   "use --precision bf16-master");
  }
  return ok();
}

}  // namespace

Status check_megatron(const ModelSpec& model, const ParallelPlan& plan) {
  if (!has_megatron(plan)) {
    return Error::invalid_argument("megatron", "null",
                                   "the options of Megatron-Core, as {\"tp\": 1}");
  }
  return first_fault(std::array<Status, 7>{
      check_model(model), check_megatron_special_layers(model, plan), check_others(plan),
      check_degrees(model, plan), check_widths(model, plan), check_needs(model, plan),
      check_forms(model, plan)});
}

}  // namespace headroom::ir
