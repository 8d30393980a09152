// Runs of Megatron-LM, NeMo and Megatron-Bridge as tables and papers describe them.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/megatron/measured_runs.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/published_presets.h"

namespace headroom::ir::megatron {
namespace {

/// Forms of layers. All but the first differ from Llama's.
enum class LayerForm : std::uint8_t { kLlama, kGpt2, kDeepseek, kQwen3Moe, kMixtral, kGptOss };

LayerForm read_architecture(RunReader& model) {
  constexpr std::array<RowWord<LayerForm>, 11> kLayerForms = {
      {{"llama", LayerForm::kLlama},
       {"deepseek_v3 (MLA MoE)", LayerForm::kDeepseek},
       {"gpt", LayerForm::kGpt2},
       {"gpt3", LayerForm::kGpt2},
       {"gpt2-style", LayerForm::kGpt2},
       {"deepseek_v2_mla_moe", LayerForm::kDeepseek},
       {"deepseek_v3_mla_moe", LayerForm::kDeepseek},
       {"deepseek_v3", LayerForm::kDeepseek},
       {"qwen3_moe", LayerForm::kQwen3Moe},
       {"mixtral", LayerForm::kMixtral},
       {"gpt_oss", LayerForm::kGptOss}}};
  return model.word<LayerForm>("arch", "", kLayerForms);
}

void set_layer_form(LayerForm form, ModelSpec& spec) {
  const bool gpt = form == LayerForm::kGpt2;
  spec.norm = gpt ? NormKind::kLayer : NormKind::kRms;
  spec.position = gpt ? PositionKind::kLearned : PositionKind::kRope;
  spec.gated_mlp = !gpt;
  spec.activation = gpt ? Activation::kGelu : Activation::kSilu;
  const bool oss = form == LayerForm::kGptOss;
  spec.qkv_bias = spec.output_bias = gpt || oss;
  spec.mlp_bias = gpt;
  spec.attention_sinks = oss;
  const bool head_norms = form == LayerForm::kDeepseek || form == LayerForm::kQwen3Moe;
  spec.qk_norm = head_norms ? QkNorm::kPerHead : QkNorm::kNone;
  const double dropout = gpt ? 0.1 : 0;  // Megatron's default, which Llama's recipes disable.
  spec.dropout = {.embedding = dropout, .attention = dropout, .residual = dropout, .activation = 0};
}

/// gpt-oss: a sliding window in every second layer, starting with the first; biases; no
/// load-balancing loss.
/// Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/models/gpt_oss/gpt_oss_provider.py.
void complete_gpt_oss(RunReader& model, MegatronPlan& plan, ModelSpec& spec) {
  constexpr std::int64_t kWindow = 128;
  if (model.text("sliding_window", "") != "alternating 128/full" || !spec.moe) {
    model.fail("sliding_window", "another one than gpt-oss has");
    return;
  }
  for (std::size_t layer = 0; layer < spec.layers.size(); layer += 2) {
    spec.layers[layer].window = kWindow;
  }
  spec.moe->expert_bias = spec.moe->router_bias = true;
  plan.aux_loss = false;
}

/// The value of the first of two keys that exists.
std::int64_t either(RunReader& object, std::string_view key, std::string_view other,
                    std::int64_t absent) {
  const std::int64_t value = object.integer(key, absent, {0, kDimensionRange.high});
  return object.integer(other, value, {0, kDimensionRange.high});
}

void read_published_experts(RunReader& model, MegatronPlan& plan, ModelSpec& spec) {
  const JsonValue* value = model.take("moe");
  if (value == nullptr) {
    return;
  }
  RunReader moe(value, "model.moe");
  MoeSpec experts;
  experts.experts = either(moe, "experts", "num_experts", 0);
  experts.top_k = moe.stated("topk", kDimensionRange);
  experts.expert_ffn = either(moe, "moe_ffn", "expert_ffn", 0);
  experts.shared_ffn = either(moe, "shared_expert_ffn", "shared_ffn", 0);
  const std::int64_t dense = either(moe, "dense_layers", "first_dense_layers", 0);
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    spec.layers[layer].moe = static_cast<std::int64_t>(layer) >= dense;
  }
  if (const double factor = moe.number("capacity_factor", 0);
      moe.flag("pad_to_capacity", false) && factor > 0) {
    plan.capacity_factor = factor;
  }
  if (experts.experts == 0 || experts.expert_ffn == 0) {
    moe.fail("experts", "not stated");
  }
  plan.permute_fusion = true;
  spec.moe = experts;
  model.absorb(moe.trouble());
}

void read_published_latent(RunReader& model, ModelSpec& spec) {
  const JsonValue* value = model.take("mla");
  if (value == nullptr) {
    return;
  }
  RunReader mla(value, "model.mla");
  LatentAttention latent;
  latent.q_rank = mla.integer("q_lora_rank", 0, {0, kDimensionRange.high});
  latent.kv_rank = mla.stated("kv_lora_rank", kDimensionRange);
  latent.nope_dim = either(mla, "qk_head_dim", "qk_nope_head_dim", 0);
  latent.rope_dim = mla.stated("qk_rope_head_dim", kDimensionRange);
  latent.v_dim = mla.stated("v_head_dim", kDimensionRange);
  spec.latent = latent;
  model.absorb(mla.trouble());
}

ModelSpec read_table_model(RunReader& row, ParallelPlan& plan) {
  RunReader model(row.take("model"), "model");
  ModelSpec spec;
  spec.name = model.text("name", "");
  const LayerForm form = read_architecture(model);
  set_layer_form(form, spec);
  spec.hidden = spec.embedding_dim = model.stated("hidden", kDimensionRange);
  spec.heads = model.stated("heads", kDimensionRange);
  spec.kv_heads = model.stated("kv_heads", kDimensionRange);
  spec.head_dim = model.integer("head_dim", spec.heads > 0 ? spec.hidden / spec.heads : 0,
                                {0, kDimensionRange.high});
  spec.ffn = model.stated("ffn", kDimensionRange);
  // GPT-2's vocabulary, padded for eight tensor-parallel ranks, if a GPT table does not state it.
  // Source: Shoeybi et al. 2019, arXiv:1909.08053, section 5.
  constexpr std::int64_t kGpt2Vocabulary = 51200;
  spec.vocabulary = form == LayerForm::kGpt2
                        ? model.integer("vocab", kGpt2Vocabulary, kDimensionRange)
                        : model.stated("vocab", kDimensionRange);
  spec.layers.resize(static_cast<std::size_t>(model.stated("layers", {1, 1 << 12})));
  spec.max_positions = plan.workload.sequence;
  if (model.take("tied_embeddings") == nullptr) {
    model.fail("tied_embeddings", "not stated");
  }
  spec.tied_embeddings = model.flag("tied_embeddings", false);
  read_published_experts(model, edit_megatron(plan), spec);
  read_published_latent(model, spec);
  if (form == LayerForm::kGptOss) {
    complete_gpt_oss(model, edit_megatron(plan), spec);
  }
  constexpr std::array<std::string_view, 4> kAside = {"params_b", "num_params", "padded_vocab",
                                                      "qk_norm"};
  model.ignore(kAside);
  row.absorb(model.trouble());
  return spec;
}

/// The layout of 61-layer models (DeepSeek-V3, Kimi K2) in `parts` chunks if a table does not state
/// it. For 32 chunks it is the first recipes' own layout. Otherwise each chunk has as many layers
/// as it would have of 64, and the last has the remainder. It is empty for other numbers of chunks.
/// Source: NVIDIA-NeMo/Megatron-Bridge v0.2.0, src/megatron/bridge/recipes/deepseek/deepseek_v3.py,
///         kimi/kimi_k2.py, and scripts/performance, deepseek_v3_llm_pretrain.py.
std::string recipe_layout(std::int64_t parts, std::int64_t mtp_layers) {
  const std::string head = mtp_layers > 0 ? "mL" : "L";
  const auto rest = [&](const std::string& each, int between, const std::string& last) {
    return "Et*" + each + "|(t*" + each + "|)*" + std::to_string(between) + "t*" + last + head;
  };
  switch (parts) {
    case 4:
      return rest("16", 2, "13");
    case 8:
      return rest("8", 6, "5");
    case 16:
      return rest("4", 14, "1");
    case 32:
      return "Et|(tt|)*30" + head;
    default:
      return "";
  }
}

/// Sets the layers of each chunk. Some numbers of layers are divisible by the chunks only after two
/// have been added (126 of Llama 3.1 405B, 94 of Qwen3 235B). For these, recipes count the
/// embedding and the loss as layers.
/// Source: NVIDIA-NeMo/Megatron-Bridge v0.2.0, src/megatron/bridge/recipes/{llama,qwen}.
void set_chunks(RunReader& row, std::int64_t layers, std::int64_t chunks, ParallelPlan& plan) {
  MegatronPlan& megatron = edit_megatron(plan);
  constexpr std::int64_t kDeepSeekLayers = 61;
  const std::int64_t parts =
      chunks * std::max<std::int64_t>(1, plan.mesh.pipeline);  // 0: not stated.
  if (layers == kDeepSeekLayers && parts > 1 && megatron.pipeline_layout.empty()) {
    megatron.pipeline_layout = recipe_layout(parts, megatron.mtp_layers);
  }
  if (!megatron.pipeline_layout.empty()) {
    return;
  }
  const bool accounts = layers % parts != 0 && (layers + 2) % parts == 0;
  megatron.account_for_embedding = megatron.account_for_loss = accounts;
  if (chunks > 1 && layers % parts != 0 && !accounts) {
    row.fail("vpp", std::to_string(chunks) + ", which leaves stages uneven");
  } else if (chunks > 1) {
    megatron.layers_per_chunk = (accounts ? layers + 2 : layers) / parts;
  }
}

/// What a table's notes state about the pipeline: the layout, and multi-token prediction layers.
void read_layout(const JsonValue* other, MegatronPlan& megatron) {
  if (other == nullptr) {
    return;
  }
  const auto text = [other](std::string_view key) {
    const JsonValue* value = other->find(key);
    const std::string* words = value != nullptr ? value->as_string() : nullptr;
    return words != nullptr ? *words : std::string();
  };
  megatron.pipeline_layout = text("pp_layout");
  const bool predicts = text("mtp").starts_with("1 MTP layer") ||
                        text("variant").find("(w/ MTP)") != std::string::npos;
  megatron.mtp_layers = predicts ? 1 : 0;
}

void read_published_degrees(RunReader& row, std::int64_t layers, ParallelPlan& plan) {
  // The reader reports a degree that is not stated. It is set to 1, because it is a divisor below.
  plan.mesh.tensor = std::max<std::int64_t>(row.stated("tp", kDegreeRange), 1);
  plan.mesh.pipeline = std::max<std::int64_t>(row.stated("pp", kDegreeRange), 1);
  plan.mesh.context = row.integer("cp", 1, kDegreeRange);
  plan.mesh.expert = row.integer("ep", 1, kDegreeRange);
  plan.mesh.expert_tensor = row.integer("etp", 0, {0, kDegreeRange.high});
  const std::int64_t chunks = row.integer("vpp", 1, kDegreeRange);
  set_chunks(row, layers, chunks, plan);
  plan.world = row.stated("num_gpus", kWorldRange);
  plan.workload.micro_batch = row.stated("micro_batch", kBatchRange);
  const std::int64_t model_ranks =
      std::max<std::int64_t>(1, plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context);
  const std::int64_t step =
      std::max<std::int64_t>(1, plan.workload.micro_batch * plan.world / model_ranks);
  const std::int64_t batch = row.integer("global_batch", 0, {1, 1 << 24});
  const JsonValue* said = row.take("num_microbatches");
  const double micro_batches = said != nullptr ? said->as_number().value_or(0) : 0;
  if (batch % step != 0) {
    row.fail("global_batch", std::to_string(batch) + ", no multiple of " + std::to_string(step));
  } else if (batch == 0 && micro_batches < 1) {
    row.fail("global_batch", "not stated");
  }
  plan.workload.accumulation = batch > 0 ? batch / step : static_cast<std::int64_t>(micro_batches);
  plan.workload.accumulation = std::max<std::int64_t>(plan.workload.accumulation, 1);
}

/// Before FlashAttention (Dao et al. 2022, arXiv:2205.14135), Megatron-LM wrote attention scores
/// and probabilities to memory.
std::string_view usual_attention(std::string_view framework) {
  constexpr std::array<std::string_view, 3> kEarly = {"Megatron-LM (2020)", "Megatron-LM (2021)",
                                                      "Megatron-LM PTD-P"};
  const bool early = std::find(kEarly.begin(), kEarly.end(), framework) != kEarly.end();
  return early ? "eager (scores and softmax materialised)" : "";
}

/// NeMo and Megatron-Bridge overlap the distributed optimizer's all-gathers and reduce-scatters,
/// and use Transformer Engine's fused cross entropy.
/// Source: NVIDIA-NeMo/Megatron-Bridge v0.2.0, src/megatron/bridge/training/comm_overlap.py and
///         recipes; NVIDIA/NeMo nemo/collections/llm/recipes.
bool is_nemo(std::string_view framework) {
  return framework.starts_with("Megatron-Bridge") || framework.starts_with("NeMo");
}

/// Reads "selective modules ['layernorm', 'moe_act']", "recompute_modules=['mlp'] ..."; returns
/// false for other words.
bool read_modules(RunReader& row, MegatronPlan& plan) {
  const std::string words = row.text("checkpointing", "");
  if (!words.starts_with("selective modules [") && !words.starts_with("recompute_modules=[")) {
    return false;
  }
  plan.recompute = MegatronRecompute::kSelective;
  for (const MegatronModule& module : megatron_modules()) {
    const std::string quoted = "'" + std::string(module.name) + "'";
    plan.recompute_modules.*module.value = words.find(quoted) != std::string::npos;
  }
  return true;
}

/// The number formats that a run computes in. CS is current scaling, and MX is the microscaling
/// format of Blackwell. "FP8" alone stands for the presets that end in FP8_CS. In NeMo's tables and
/// in the examples of Megatron-LM it stands for delayed scaling. FP8 parameters, which make
/// all-gathers shorter, are not modelled, so only the times of such rows are read.
/// Source: NVIDIA-NeMo/Megatron-Bridge docs/performance-summary.md; NVIDIA/NeMo
///         nemo/collections/llm/recipes/precision/mixed_precision.py, bf16_with_fp8_mixed.
struct Numbers {
  Precision precision = Precision::kBf16Master;
  MegatronFp8 fp8 = MegatronFp8::kNone;
};

void read_numbers(RunReader& row, std::string_view framework, ParallelPlan& plan) {
  constexpr Numbers kHalf{};
  constexpr Numbers kFp16{.precision = Precision::kFp16Master};
  constexpr Numbers kMicro{.fp8 = MegatronFp8::kMxfp8};
  constexpr Numbers kCurrent{.fp8 = MegatronFp8::kTensorwise};
  constexpr Numbers kDelayed{.fp8 = MegatronFp8::kDelayed};
  constexpr std::array<RowWord<Numbers>, 15> kWords = {
      {{"bf16 params, fp32 main grads", kHalf},
       {"bf16, fp32 main grads", kHalf},
       {"bf16", kHalf},
       {"BF16", kHalf},
       {"fp16 mixed (fp32 main params/grads)", kFp16},
       {"fp16 mixed", kFp16},
       {"MXFP8", kMicro},
       {"FP8-MX", kMicro},
       {"FP8-CS", kCurrent},
       {"FP8", kCurrent},
       {"FP8-CS (FP8-MX)", kCurrent},
       {"FP8 (25.09 tables give no precision column)", kCurrent},
       {"bf16 + FP8", kDelayed},
       {"bf16 + FP8 (per-tensor scaling)", kDelayed},
       {"fp8 hybrid (bf16 params)", kDelayed}}};
  const auto numbers = row.word<Numbers>("precision", "", kWords);
  plan.precision = numbers.precision;
  const bool history = framework.starts_with("NeMo") && numbers.fp8 == MegatronFp8::kTensorwise;
  edit_megatron(plan).fp8 = history ? MegatronFp8::kDelayed : numbers.fp8;
}

void read_recipe(RunReader& row, std::string_view framework, ParallelPlan& plan) {
  MegatronPlan& megatron = edit_megatron(plan);
  read_numbers(row, framework, plan);
  constexpr std::array<RowWord<MegatronRecompute>, 6> kRecompute = {
      {{"none", MegatronRecompute::kNone},
       {"full", MegatronRecompute::kFullUniform},
       {"full (every layer)", MegatronRecompute::kFullUniform},
       {"full (activation recomputation)", MegatronRecompute::kFullUniform},
       {"selective (attention core) + sequence parallel", MegatronRecompute::kSelective},
       {"selective + SP", MegatronRecompute::kSelective}}};
  if (!read_modules(row, megatron)) {
    // Performance recipes disable recomputation unless a preset names modules.
    // Source: NVIDIA-NeMo/Megatron-Bridge v0.2.0, scripts/performance/configs.
    const std::string_view usual = is_nemo(framework) ? "none" : "";
    megatron.recompute = row.word<MegatronRecompute>("checkpointing", usual, kRecompute);
    megatron.recompute_modules.core_attention = megatron.recompute == MegatronRecompute::kSelective;
  }
  constexpr std::array<RowWord<MegatronAttention>, 8> kAttention = {
      {{"flash", MegatronAttention::kFused},
       {"fused (TE auto)", MegatronAttention::kFused},
       {"flash (TransformerEngine)", MegatronAttention::kFused},
       {"flash (TransformerEngine; MLA via TE)", MegatronAttention::kFused},
       {"flash (community head_dim!=v_dim build for MLA)", MegatronAttention::kFused},
       {"flash/cuDNN fused (TE)", MegatronAttention::kFused},
       {"Transformer Engine / cuDNN flash", MegatronAttention::kFused},
       {"eager (scores and softmax materialised)", MegatronAttention::kUnfused}}};
  megatron.attention =
      row.word<MegatronAttention>("attention", usual_attention(framework), kAttention);
  // NeMo's benchmarks enable it for every tensor-parallel degree above one.
  // Source: NVIDIA/NeMo 8cfedd7 scripts/performance/helpers.py, `sequence_parallel`.
  megatron.sequence_parallel =
      row.flag("sequence_parallel", is_nemo(framework)) && plan.mesh.tensor > 1;
  const std::string optimizer = row.text("optimizer", "");
  megatron.distributed_optimizer = optimizer.find("distributed") != std::string::npos;
  megatron.precision_aware = optimizer.find("precision aware") != std::string::npos;
  if (megatron.precision_aware) {
    const std::string types = row.text("optimizer_state_dtypes", "");
    megatron.fp32_gradients = types.find("bf16 main grads") == std::string::npos;
    megatron.bf16_moments = types.find("bf16 exp_avg") != std::string::npos;
  }
}

/// Reads switches that Megatron's table rows quote: "--cross-entropy-fusion-impl te".
void read_quoted(const JsonValue* other, MegatronPlan& megatron) {
  std::string words = other != nullptr ? to_json(*other) : "";
  const auto quotes = [&words](std::string_view flag) {
    return words.find(flag) != std::string::npos;
  };
  if (quotes("--cross-entropy-fusion-impl te") || quotes("fused te")) {
    megatron.cross_entropy = MegatronCrossEntropy::kTransformerEngine;
  } else if (quotes("--cross-entropy-loss-fusion")) {
    megatron.cross_entropy = MegatronCrossEntropy::kNative;
  }
  if (quotes("cp-comm-type a2a")) {
    megatron.context_exchange = MegatronContext::kAllToAll;
  }
  megatron.overlap_grad_reduce = quotes("--overlap-grad-reduce");
  megatron.overlap_param_gather = quotes("--overlap-param-gather");
}

/// "cuda_graph full_iteration/[]" captures the step in one graph. "cuda_graph
/// transformer_engine/['attn']" captures parts of layers, or whole layers if none is named.
void read_graphs(RunReader& row, RunConditions& conditions) {
  const std::string words = row.text("compile", "");
  if (words.starts_with("cuda_graph full_iteration") ||
      words == "cuda_graph transformer_engine/[]") {
    conditions.all_in_graphs = true;
  } else if (words.starts_with("cuda_graph transformer_engine")) {
    const auto has = [&words](std::string_view scope) {
      return words.find(scope) != std::string::npos;
    };
    graph_layer_parts({.attention = has("'attn'"), .router = has("'moe_router'")}, conditions);
  } else if (!words.empty() && words != "none" && !words.starts_with("cuda_graph none")) {
    row.fail("compile", "'" + words + "'");
  }
}

/// How the authors of a table count FLOPs.
/// Source: NVIDIA/Megatron-LM megatron/training/training.py, num_floating_point_operations (half of
///         the scores since core 0.10); Narayanan et al. 2021, arXiv:2104.04473, section 5.1 (2020
///         and 2021: including recomputation); MooreThreads/SimuMax simumax/core/config.py,
///         flops_per_token, for runs of its scripts, which the row's `other` names.
std::optional<FlopCount> flop_count(RunReader& row) {
  constexpr FlopCount kMasked{};
  constexpr FlopCount kSeen{.masked_keys = false};
  constexpr FlopCount kAgain{.recomputed = true};
  constexpr std::array<RowWord<FlopCount>, 7> kCounts = {{{"Megatron-LM (mcore)", kSeen},
                                                          {"Megatron-LM / mcore", kSeen},
                                                          {"Megatron-LM (2020)", kAgain},
                                                          {"Megatron-LM (2021)", kAgain},
                                                          {"Megatron-LM PTD-P", kAgain},
                                                          {"Megatron-Bridge", kSeen},
                                                          {"NeMo", kMasked}}};
  const JsonValue* other = row.peek("other");
  const std::string* remarks = other != nullptr ? other->as_string() : nullptr;
  const std::string framework = row.text("framework", "");
  if (remarks != nullptr && remarks->find("simu_tools/megatron_scripts") != std::string::npos) {
    return kMasked;
  }
  for (const RowWord<FlopCount>& each : kCounts) {
    if (begins_with(framework, each.word)) {
      return each.value;
    }
  }
  return std::nullopt;
}

/// Applies the settings of NeMo's and Megatron-Bridge's recipes.
void apply_nemo_recipe(ParallelPlan& plan, const ModelSpec& model) {
  MegatronPlan& megatron = edit_megatron(plan);
  megatron.overlap_grad_reduce = megatron.overlap_param_gather =
      megatron.distributed_optimizer && plan.world > 1;
  if (megatron.fp8 == MegatronFp8::kMxfp8) {
    // Source: Megatron-Bridge v0.2.0, scripts/performance/configs/llama3: norms became NaN.
    megatron.overlap_param_gather = false;
  }
  if (!model.moe) {
    plan.mesh.expert_tensor = 0;  // Tables have this column for all models.
  }
  // Source: NVIDIA/NeMo nemo/collections/llm/recipes/tp_overlap_configs/userbuffers.py;
  // NVIDIA-NeMo/Megatron-Bridge v0.3.0 scripts/performance/configs/llama/llama31_llm_pretrain.py.
  megatron.tp_comm_overlap = megatron.sequence_parallel;
  megatron.cross_entropy = MegatronCrossEntropy::kTransformerEngine;
  megatron.fp32_gradients = false;  // grad_reduce_in_fp32=False
}

/// Reads the token dispatcher of the experts.
void read_dispatcher(RunReader& row, MegatronPlan& megatron) {
  const JsonValue* other = row.peek("other");
  const auto stated = [other](std::string_view key) {
    return other != nullptr ? other->find(key) : nullptr;
  };
  const JsonValue* backend = stated("moe_flex_dispatcher_backend");
  if (backend != nullptr && backend->as_string() != nullptr) {
    if (*backend->as_string() != "hybridep") {
      row.fail("other.moe_flex_dispatcher_backend", "another one than hybridep");
    }
    megatron.dispatcher = MegatronDispatcher::kHybridEp;
  }
  const JsonValue* overlap = stated("moe_a2a_overlap");
  const bool overlaps = overlap != nullptr && overlap->as_bool().value_or(false);
  if (overlaps) {
    overlap_exchange(megatron);
  }
}

}  // namespace

void read_published_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/,
                        PublishedRun& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "megatron";
  MegatronPlan& megatron = edit_megatron(plan) = {};
  const std::string framework = row.text("framework", "");
  row.expect_one_of("mode", {"train"});
  plan.workload.sequence = row.stated("seq_len", kSequenceRange);
  run.model = read_table_model(row, plan);
  read_layout(row.peek("other"), megatron);
  read_published_degrees(row, static_cast<std::int64_t>(run.model.layers.size()), plan);
  read_recipe(row, framework, plan);
  read_quoted(row.peek("other"), megatron);
  if (is_nemo(framework)) {
    apply_nemo_recipe(plan, run.model);
  }
  row.expect_none({"quant", "offload", "fsdp", "lora"});
  read_dispatcher(row, megatron);
  read_graphs(row, run.conditions);
  apply_bridge_preset(row, run);
  run.flops = flop_count(row);
  constexpr std::array<std::string_view, 2> kAside = {"gpu_memory", "task"};
  row.ignore(kAside);
}

}  // namespace headroom::ir::megatron
