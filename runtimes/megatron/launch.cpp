#include "runtimes/megatron/launch.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "model_ir/json/json_value.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"

// Source of the arguments: NVIDIA/Megatron-LM megatron/training/arguments.py (core 0.16.1).
namespace headroom::ir::megatron {
namespace {

using Words = std::vector<std::string>;

void add_argument(Words& words, std::string_view name, std::int64_t value) {
  append_words(words, {std::string(name), std::to_string(value)});
}

/// A number without a fraction that is not there: Megatron parses some arguments as integers.
std::string number_text(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? std::to_string(whole) : to_json(JsonValue{value});
}

/// The lengths before scaling that Megatron has built in.
/// Source: megatron/core/models/common/embeddings/rotary_pos_embedding.py, _apply_scaling;
///         megatron/core/transformer/transformer_config.py, MLATransformerConfig.
constexpr std::int64_t kLlamaPositions = 8192;
constexpr std::int64_t kYarnPositions = 4096;

/// Whether arguments of Megatron stand for this scaling. YaRN has arguments for multi-head latent
/// attention alone.
bool has_scaling_arguments(const ModelSpec& model) {
  const RotarySpec& rotary = model.rotary;
  switch (rotary.scaling) {
    case RotaryScaling::kNone:
    case RotaryScaling::kLinear:
      return true;
    case RotaryScaling::kLlama3:
      return rotary.usual_bounds && rotary.trained_positions == kLlamaPositions;
    case RotaryScaling::kYarn:
      return rotary.usual_bounds && rotary.trained_positions == kYarnPositions &&
             model.latent.has_value();
    case RotaryScaling::kOther:
      return false;
  }
  return false;
}

void add_rotary(Words& words, const ModelSpec& model) {
  const RotarySpec& rotary = model.rotary;
  if (rotary.base) {
    append_words(words, {"--rotary-base", number_text(*rotary.base)});
  }
  if (model.rope_fraction != 1.0 && !model.latent) {
    append_words(words, {"--rotary-percent", number_text(model.rope_fraction)});
  }
  if (!has_scaling_arguments(model)) {
    return;
  }
  if (rotary.scaling == RotaryScaling::kLlama3) {
    append_words(words,
                 {"--use-rope-scaling", "--rope-scaling-factor", number_text(rotary.factor)});
  } else if (rotary.scaling == RotaryScaling::kYarn) {
    append_words(words,
                 {"--rotary-scaling-factor", number_text(rotary.factor), "--mscale",
                  number_text(rotary.mscale), "--mscale-all-dim", number_text(rotary.mscale_all)});
  } else if (rotary.scaling == RotaryScaling::kLinear) {
    append_words(words, {"--rotary-seq-len-interpolation-factor", number_text(rotary.factor)});
  }
}

/// Attention sinks, windows in every second layer, and experts whose gates are clamped.
/// Source: NVIDIA/Megatron-LM core 0.16.1,
///         examples/post_training/modelopt/conf/openai/gpt-oss-20b.sh.
void add_gpt_oss(Words& words, const ModelSpec& model) {
  append_words(words, {"--quick-geglu", "--glu-linear-offset", "1.0",
                       "--activation-func-clamp-value", "7.0", "--softmax-type", "learnable"});
  const auto windowed = std::ranges::find_if(
      model.layers, [](const LayerSpec& layer) { return layer.window.has_value(); });
  if (windowed != model.layers.end()) {
    append_words(words, {"--window-size", std::to_string(*windowed->window) + ",0",
                         "--window-attn-skip-freq", "2"});
  }
}

void add_model_form(Words& words, const ModelSpec& model) {
  const bool rms = model.norm != NormKind::kLayer && model.norm != NormKind::kLayerNoBias;
  append_words(words, {"--normalization", rms ? "RMSNorm" : "LayerNorm"});
  if (model.norm_epsilon) {
    append_words(words, {"--norm-epsilon", to_json(JsonValue{*model.norm_epsilon})});
  }
  append_words(words, {"--position-embedding-type", model.position == PositionKind::kRope ? "rope"
                                                    : model.position == PositionKind::kLearned
                                                        ? "learned_absolute"
                                                        : "none"});
  if (model.position == PositionKind::kRope) {
    add_rotary(words, model);
  }
  if (model.family == Family::kGptOss) {
    add_gpt_oss(words, model);
  } else if (model.gated_mlp) {
    words.emplace_back("--swiglu");
  }
  if (!model.mlp_bias && !model.output_bias) {
    words.emplace_back("--disable-bias-linear");
  }
  if (model.qkv_bias && !model.output_bias) {
    words.emplace_back("--add-qkv-bias");
  }
  // With latent attention, the norms on the compressed queries, keys and values.
  if (model.qk_norm == QkNorm::kPerHead || model.latent) {
    words.emplace_back("--qk-layernorm");
  }
  if (!model.tied_embeddings) {
    words.emplace_back("--untie-embeddings-and-output-weights");
  }
  append_words(words, {"--attention-dropout", to_json(JsonValue{model.dropout.attention}),
                       "--hidden-dropout", to_json(JsonValue{model.dropout.residual})});
}

void add_latent_attention(Words& words, const LatentAttention& latent) {
  words.emplace_back("--multi-latent-attention");
  if (latent.q_rank > 0) {
    add_argument(words, "--q-lora-rank", latent.q_rank);
  }
  add_argument(words, "--kv-lora-rank", latent.kv_rank);
  add_argument(words, "--qk-head-dim", latent.nope_dim);
  add_argument(words, "--qk-pos-emb-head-dim", latent.rope_dim);
  add_argument(words, "--v-head-dim", latent.v_dim);
}

/// "([0]*1+[1]*26)": which layers have experts.
std::string expert_layers(const ModelSpec& model) {
  std::string text;
  for (std::size_t at = 0; at < model.layers.size();) {
    std::size_t end = at;
    while (end < model.layers.size() && model.layers[end].moe == model.layers[at].moe) {
      ++end;
    }
    text += (text.empty() ? "([" : "+[") + std::string(model.layers[at].moe ? "1" : "0") + "]*" +
            std::to_string(end - at);
    at = end;
  }
  return text + ")";
}

/// How the router scores and chooses. The estimate is for softmax scores of the chosen experts.
Words router_words(const MoeSpec& moe) {
  Words words;
  if (moe.correction_bias) {
    append_words(words,
                 {"--moe-router-score-function", "sigmoid", "--moe-router-enable-expert-bias"});
  } else if (!moe.normalise_top_k && !moe.router_bias) {  // gpt-oss chooses first, too.
    words.emplace_back("--moe-router-pre-softmax");
  }
  if (moe.groups > 1) {
    add_argument(words, "--moe-router-num-groups", moe.groups);
    add_argument(words, "--moe-router-group-topk", moe.top_groups);
  }
  if (moe.scaling != 1) {
    append_words(words, {"--moe-router-topk-scaling-factor", number_text(moe.scaling)});
  }
  return words;
}

void add_experts(Words& words, const ModelSpec& model, const MegatronPlan& plan) {
  const MoeSpec& moe = *model.moe;
  add_argument(words, "--num-experts", moe.experts);
  add_argument(words, "--moe-router-topk", moe.top_k);
  add_argument(words, "--moe-ffn-hidden-size", moe.expert_ffn);
  if (moe.shared_ffn > 0) {
    add_argument(words, "--moe-shared-expert-intermediate-size", moe.shared_ffn);
  }
  if (std::ranges::any_of(model.layers, [](const LayerSpec& layer) { return !layer.moe; })) {
    append_words(words, {"--moe-layer-freq", expert_layers(model)});
  }
  append_words(words, {"--moe-router-load-balancing-type", plan.sinkhorn   ? "sinkhorn"
                                                           : plan.aux_loss ? "aux_loss"
                                                                           : "none"});
  append_words(words, router_words(moe));
  if (plan.dispatcher == MegatronDispatcher::kHybridEp) {
    append_words(words, {"--moe-token-dispatcher-type", "flex", "--moe-flex-dispatcher-backend",
                         "hybridep"});
  } else {
    append_words(words,
                 {"--moe-token-dispatcher-type",
                  plan.dispatcher == MegatronDispatcher::kAllToAll ? "alltoall" : "allgather"});
  }
  if (plan.grouped_gemm) {
    words.emplace_back("--moe-grouped-gemm");
  }
  if (plan.capacity_factor) {
    words.emplace_back("--moe-pad-expert-input-to-capacity");
  }
}

Words model_words(const ModelSpec& model, const ParallelPlan& plan) {
  Words words;
  add_argument(words, "--num-layers", static_cast<std::int64_t>(model.layers.size()));
  add_argument(words, "--hidden-size", model.hidden);
  add_argument(words, "--ffn-hidden-size", model.ffn);
  add_argument(words, "--num-attention-heads", model.heads);
  if (model.latent) {
    add_latent_attention(words, *model.latent);
  } else {
    if (model.kv_heads != model.heads) {
      words.emplace_back("--group-query-attention");
      add_argument(words, "--num-query-groups", model.kv_heads);
    }
    add_argument(words, "--kv-channels", model.head_dim);
  }
  add_argument(words, "--max-position-embeddings",
               std::max(model.max_positions, plan.workload.sequence));
  // NullTokenizer adds a token that ends a document.
  append_words(words, {"--tokenizer-type", "NullTokenizer"});
  add_argument(words, "--vocab-size", model.vocabulary - 1);
  add_model_form(words, model);
  if (model.moe) {
    add_experts(words, model, megatron_of(plan));
  }
  return words;
}

void add_recomputation(Words& words, const MegatronPlan& plan) {
  if (plan.recompute == MegatronRecompute::kSelective) {
    append_words(words, {"--recompute-granularity", "selective", "--recompute-modules"});
    append_words(words, names_of(recomputed_modules(plan)));
  } else if (plan.recompute != MegatronRecompute::kNone) {
    append_words(words, {"--recompute-granularity", "full", "--recompute-method",
                         plan.recompute == MegatronRecompute::kFullUniform ? "uniform" : "block"});
    add_argument(words, "--recompute-num-layers", plan.recompute_layers);
  }
}

/// Options whose argument needs another beside it, or has another name than its value.
void add_companions(Words& words, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  if (megatron.cross_entropy != MegatronCrossEntropy::kUnfused) {
    words.emplace_back("--cross-entropy-loss-fusion");
  }
  if (megatron.fp8 != MegatronFp8::kNone) {
    append_words(words, {"--fp8-format", "hybrid"});
  }
  if (megatron.optimizer_offload > 0) {
    words.emplace_back("--optimizer-cpu-offload");
  }
  if (!(megatron.offload_modules == MegatronOffload{})) {
    words.emplace_back("--fine-grained-activation-offloading");
  }
  if (megatron.bf16_moments) {
    append_words(words, {"--exp-avg-dtype", "bf16", "--exp-avg-sq-dtype", "bf16"});
  }
  if (megatron.context_exchange_ranks > 1 && plan.mesh.context > 1) {
    append_words(words, {"--cp-comm-type", "a2a+p2p", "--hierarchical-context-parallel-sizes",
                         std::to_string(megatron.context_exchange_ranks),
                         std::to_string(plan.mesh.context / megatron.context_exchange_ranks)});
  }
  if (!megatron.mask_in_dataloader) {
    words.emplace_back("--no-create-attention-mask-in-dataloader");
  }
}

/// Rows whose arguments are written with others (`add_recomputation`, `add_experts`).
bool is_written_elsewhere(const OptionField& field) {
  constexpr std::array<std::string_view, 5> kElsewhere = {
      "recompute", "recompute_layers", "recompute_modules", "dispatcher", "grouped_gemm"};
  return std::ranges::find(kElsewhere, field.name) != kElsewhere.end();
}

Words plan_words(const ModelSpec& /*model*/, const ParallelPlan& plan) {
  const MegatronPlan megatron = megatron_of(plan);
  const MegatronPlan usual;
  Words words;
  std::vector<OptionField> rows;
  for (const OptionField& field : options().fields) {
    if (!is_written_elsewhere(field)) {
      rows.push_back(field);
    }
  }
  append_words(words, own_words(rows, plan, options().usual(), "--", OwnForm::kSeparate));
  // Megatron-Core chooses another backend by itself where none is named.
  if (megatron.attention == usual.attention) {
    append_words(words, {"--attention-backend", "fused"});
  }
  add_companions(words, plan);
  add_recomputation(words, megatron);
  const std::int64_t data = std::max<std::int64_t>(
      1, plan.world / (plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context));
  add_argument(words, "--micro-batch-size", plan.workload.micro_batch);
  add_argument(words, "--global-batch-size",
               plan.workload.micro_batch * plan.workload.accumulation * data);
  add_argument(words, "--seq-length", plan.workload.sequence);
  if (plan.precision == Precision::kBf16Master) {
    words.emplace_back("--bf16");
  } else if (plan.precision == Precision::kFp16Master) {
    words.emplace_back("--fp16");
  }
  append_words(words, {"--clip-grad", to_json(JsonValue{plan.clip_norm.value_or(0)})});
  if (plan.optimizer.kind == OptimizerKind::kSgd) {
    append_words(words, {"--optimizer", "sgd"});
  }
  return words;
}

/// Comments about what the user adds.
Words remarks(const ModelSpec& model, const MegatronPlan& plan) {
  Words lines = {
      "# pretrain_gpt.py also needs data (--data-path, or --mock-data), --train-iters and --lr;",
      "# they change neither memory nor the time of a step.",
      "# --vocab-size is one less than the model's: NullTokenizer adds a token of its own. With "
      "the",
      "# model's tokenizer, leave out --vocab-size."};
  if (model.position == PositionKind::kRope && !model.rotary.base) {
    lines.emplace_back("# The model's file has no rope_theta; Megatron's --rotary-base is 10000.");
  }
  if (!model.norm_epsilon) {
    lines.emplace_back(
        "# The model's file has no epsilon for its norms; Megatron's --norm-epsilon is 1e-05.");
  }
  if (model.position == PositionKind::kRope && !has_scaling_arguments(model)) {
    lines.emplace_back(
        "# The model scales its rotary embedding in a way that no argument of Megatron stands "
        "for; memory and time do not depend on it.");
  }
  if (model.moe && !router_words(*model.moe).empty()) {
    lines.emplace_back(
        "# The estimate is for a router with softmax scores of the chosen experts; this one's "
        "tensors");
    lines.emplace_back("# differ by a few values per token and expert.");
  }
  if (model.moe && plan.aux_loss) {
    lines.emplace_back("# --moe-aux-loss-coeff is 0 unless it is set.");
  }
  return lines;
}

}  // namespace

Launch megatron_launch(const ModelSpec& model, const ParallelPlan& plan, const LaunchSite& site) {
  Launch launch{.command = torchrun_words(plan, site), .code = {}};
  if (plan.world == 1) {
    launch.command = {"torchrun", "--standalone", "--nproc-per-node", "1"};
  }
  launch.command.emplace_back("pretrain_gpt.py");
  append_words(launch.command, model_words(model, plan));
  append_words(launch.command, plan_words(model, plan));
  // Two micro-batches at a time need several connections, and validate_args accepts 32 with them.
  // Otherwise tensor and context parallelism require 1. Source: megatron/training/arguments.py.
  if (megatron_of(plan).overlap_expert_exchange) {
    launch.environment = {"CUDA_DEVICE_MAX_CONNECTIONS=32"};
  } else if (plan.mesh.tensor > 1 || plan.mesh.context > 1) {
    launch.environment = {"CUDA_DEVICE_MAX_CONNECTIONS=1"};
  }
  launch.code = remarks(model, megatron_of(plan));
  return launch;
}

}  // namespace headroom::ir::megatron
