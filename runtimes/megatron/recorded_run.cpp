// Recorded rows of Megatron-Core. The case itself describes the model in Megatron's own terms.
#include <array>
#include <string>
#include <utility>

#include "runtimes/interface/runs/recorded_keys.h"
#include "runtimes/megatron/measured_runs.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {
namespace {

MoeSpec read_case_experts(RunReader& moe, MegatronPlan& plan) {
  MoeSpec spec;
  spec.experts = moe.integer("experts", 1, kSizeRange);
  spec.top_k = moe.integer("moe_router_topk", 2, kSizeRange);
  spec.expert_ffn = moe.integer("moe_ffn_hidden_size", 1, kSizeRange);
  spec.shared_ffn = moe.integer("moe_shared_expert_intermediate_size", 0, {0, kSizeRange.high});
  plan.permute_fusion = moe.flag("moe_permute_fusion", false);
  if (const double factor = moe.number("moe_expert_capacity_factor", 0); factor > 0) {
    plan.capacity_factor = factor;
  }
  plan.aux_loss = moe.text("moe_router_load_balancing_type", "aux_loss") == "aux_loss";
  constexpr std::array<RowWord<MegatronDispatcher>, 2> kDispatchers = {
      {{"alltoall", MegatronDispatcher::kAllToAll}, {"flex", MegatronDispatcher::kHybridEp}}};
  plan.dispatcher =
      moe.word<MegatronDispatcher>("moe_token_dispatcher_type", "allgather", kDispatchers);
  if (moe.text("moe_flex_dispatcher_backend", "hybridep") != "hybridep") {
    moe.fail("moe_flex_dispatcher_backend", "another one than hybridep");
  }
  plan.router_fp32 = moe.text("moe_router_dtype", "") == "fp32";
  plan.grouped_gemm = moe.flag("moe_grouped_gemm", false);
  plan.shared_expert_overlap = moe.flag("moe_shared_expert_overlap", false);
  const bool dealt_out = plan.dispatcher == MegatronDispatcher::kHybridEp;
  if (!moe.flag("moe_pad_expert_input_to_capacity", false) && !dealt_out) {
    moe.fail("moe_pad_expert_input_to_capacity", "false: what each expert gets is not stated");
  }
  constexpr std::array<std::string_view, 1> kAside = {"moe_aux_loss_coeff"};
  moe.ignore(kAside);
  return spec;
}

/// --moe-layer-freq as a list: 1 for each layer with experts. Without it, all layers have experts.
void read_sparse_layers(RunReader& moe, ModelSpec& spec) {
  const JsonValue* value = moe.take("moe_layer_freq");
  const JsonValue::Array* list = value != nullptr ? value->as_array() : nullptr;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const bool said = list != nullptr && layer < list->size();
    spec.layers[layer].moe = !said || (*list)[layer].as_integer().value_or(1) != 0;
  }
}

LatentAttention read_case_latent(RunReader& mla) {
  LatentAttention latent;
  latent.q_rank = mla.integer("q_lora_rank", 0, {0, kSizeRange.high});
  latent.kv_rank = mla.integer("kv_lora_rank", 512, kSizeRange);
  latent.nope_dim = mla.integer("qk_head_dim", 128, kSizeRange);
  latent.rope_dim = mla.integer("qk_pos_emb_head_dim", 64, kSizeRange);
  latent.v_dim = mla.integer("v_head_dim", 128, kSizeRange);
  constexpr std::array<std::string_view, 2> kAside = {"rotary_scaling_factor",
                                                      "multi_latent_attention"};
  mla.ignore(kAside);
  return latent;
}

/// Norms, biases, activation and positions: those of GPT, those of Llama, or a mixture of both.
void read_case_layer_form(RunReader& model, ModelSpec& spec) {
  constexpr std::array<RowWord<NormKind>, 2> kNorms = {
      {{"LayerNorm", NormKind::kLayer}, {"RMSNorm", NormKind::kRms}}};
  constexpr std::array<RowWord<PositionKind>, 4> kPositions = {
      {{"learned_absolute", PositionKind::kLearned},
       {"rope", PositionKind::kRope},
       {"yarn", PositionKind::kRope},
       {"none", PositionKind::kNone}}};
  spec.norm = model.word<NormKind>("norm", "LayerNorm", kNorms);
  spec.position = model.word<PositionKind>("position", "learned_absolute", kPositions);
  spec.gated_mlp = model.flag("swiglu", false);
  spec.activation = spec.gated_mlp ? Activation::kSilu : Activation::kGelu;
  const bool bias = model.flag("bias", true);
  spec.qkv_bias = bias || model.flag("qkv_bias", false);
  spec.output_bias = bias;
  spec.mlp_bias = bias;
  spec.qk_norm = model.flag("qk_layernorm", false) ? QkNorm::kPerHead : QkNorm::kNone;
  spec.tied_embeddings = !model.flag("untied", false);
  const double hidden = model.number("hidden_dropout", 0.1);
  spec.dropout = {.embedding = hidden,
                  .attention = model.number("attention_dropout", 0.1),
                  .residual = hidden,
                  .activation = 0};
  spec.rope_fraction = model.number("rotary_percent", 1.0);
  constexpr std::array<std::string_view, 1> kAside = {"rotary_base"};
  model.ignore(kAside);
}

void read_case_model(RunReader& model, ParallelPlan& plan, ModelSpec& spec) {
  spec.name = "case";
  spec.hidden = model.integer("hidden", 1, kSizeRange);
  spec.embedding_dim = spec.hidden;
  spec.heads = model.integer("heads", 1, kSizeRange);
  spec.kv_heads = model.integer("kv_heads", spec.heads, kSizeRange);
  spec.head_dim = model.integer("kv_channels", spec.hidden / spec.heads, kSizeRange);
  spec.vocabulary = model.integer("vocab", 1, kSizeRange);
  spec.layers.resize(static_cast<std::size_t>(model.integer("layers", 1, {1, 1 << 12})));
  read_case_layer_form(model, spec);
  // A gated MLP has two thirds of 4 H, in multiples of 64, because the gate has a third of the
  // weights.
  const std::int64_t usual = spec.gated_mlp ? spec.hidden * 8 / 3 / 64 * 64 : 4 * spec.hidden;
  spec.ffn = model.integer("ffn", usual, kSizeRange);
  plan.workload.sequence = model.integer("seq", 2048, kSequenceRange);
  spec.max_positions = model.integer("max_pos", plan.workload.sequence, kSizeRange);
  edit_megatron(plan).vocabulary_divisor = model.integer("vocab_divisor", 128, kSizeRange);
  if (const JsonValue* value = model.take("moe")) {
    RunReader moe(value, "case.model.moe");
    spec.moe = read_case_experts(moe, edit_megatron(plan));
    spec.moe->expert_bias = spec.mlp_bias;
    spec.moe->router_bias = spec.mlp_bias;
    read_sparse_layers(moe, spec);
    model.absorb(moe.trouble());
  }
  if (const JsonValue* value = model.take("mla")) {
    RunReader mla(value, "case.model.mla");
    spec.latent = read_case_latent(mla);
    model.absorb(mla.trouble());
  }
}

/// The names in a list of the row.
std::vector<std::string> read_names(RunReader& row, std::string_view key) {
  const JsonValue* value = row.take(key);
  const JsonValue::Array* list = value != nullptr ? value->as_array() : nullptr;
  std::vector<std::string> names;
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::string* name = (*list)[i].as_string();
    names.push_back(name != nullptr ? *name : "?");
  }
  return names;
}

void read_activation_offload(RunReader& config, MegatronPlan& megatron) {
  const std::vector<std::string> names = read_names(config, "offload_modules");
  if (config.flag("fine_grained_activation_offloading", false)) {
    const Result<MegatronOffload> modules = parse_offload_modules("offload_modules", names);
    if (modules) {
      megatron.offload_modules = *modules;
    } else {
      config.fail("offload_modules", "'" + modules.error().got + "'");
    }
  }
  megatron.least_offloaded =
      config.integer("min_offloaded_tensor_size", megatron.least_offloaded, kSizeRange);
}

/// Settings of other releases of Transformer Engine, which have no effect in this one.
void read_layer_offload(RunReader& config, MegatronPlan& megatron) {
  const bool offloads = config.flag("cpu_offloading", false);
  const std::int64_t layers =
      config.integer("cpu_offloading_num_layers", 0, {0, kDegreeRange.high});
  megatron.offloaded_layers = offloads ? layers : 0;
  config.flag("cpu_offloading_weights", false);
  config.flag("cpu_offloading_double_buffering", false);
}

void note_module(RunReader& row, const std::string& name, MegatronModules& modules) {
  for (const MegatronModule& module : megatron_modules()) {
    if (module.name == name) {
      modules.*module.value = true;
      return;
    }
  }
  row.fail("modules", "'" + name + "'");
}

void read_case_recompute(RunReader& recompute, MegatronPlan& plan) {
  const std::string granularity = recompute.text("granularity", "none");
  const std::string method = recompute.text("method", "uniform");
  plan.recompute_layers = recompute.integer("layers", 1, kDegreeRange);
  if (granularity == "full") {
    plan.recompute =
        method == "block" ? MegatronRecompute::kFullBlock : MegatronRecompute::kFullUniform;
  } else if (granularity == "selective") {
    plan.recompute = MegatronRecompute::kSelective;
    const JsonValue* modules = recompute.take("modules");
    const JsonValue::Array* list = modules != nullptr ? modules->as_array() : nullptr;
    plan.recompute_modules.core_attention = list == nullptr;
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const std::string* name = (*list)[i].as_string();
      note_module(recompute, name != nullptr ? *name : "?", plan.recompute_modules);
    }
  } else if (granularity != "none") {
    recompute.fail("granularity", "'" + granularity + "'");
  }
}

void read_case_degrees(RunReader& row, ParallelPlan& plan) {
  MegatronPlan& megatron = edit_megatron(plan);
  plan.mesh.tensor = row.integer("tp", 1, kDegreeRange);
  plan.mesh.pipeline = row.integer("pp", 1, kDegreeRange);
  plan.mesh.context = row.integer("cp", 1, kDegreeRange);
  plan.mesh.expert = row.integer("ep", 1, kDegreeRange);
  plan.mesh.expert_tensor = row.integer("etp", 0, {0, kDegreeRange.high});
  megatron.layers_per_chunk = row.integer("vpp", 0, {0, kDegreeRange.high});
  megatron.sequence_parallel = row.flag("sp", false);
  plan.world = row.integer("world", 1, kWorldRange);
}

/// Fields of OptimizerConfig. Only one type for all moments is supported, and only gradients in the
/// type in which they are reduced.
void read_case_optimizer(RunReader& row, MegatronPlan& megatron) {
  RunReader optimizer(row.take("opt"), "case.opt");
  megatron.precision_aware = optimizer.flag("use_precision_aware_optimizer", false);
  if (optimizer.flag("optimizer_cpu_offload", false)) {
    megatron.optimizer_offload = optimizer.number("optimizer_offload_fraction", 0);
  }
  constexpr std::array<std::string_view, 2> kAside = {"fp8_recipe",
                                                      "reuse_grad_buf_for_mxfp8_param_ag"};
  optimizer.ignore(kAside);
  const std::string average = optimizer.text("exp_avg_dtype", "fp32");
  const std::string square = optimizer.text("exp_avg_sq_dtype", "fp32");
  megatron.bf16_moments = average == "bf16" && square == "bf16";
  if (average != square || (average != "fp32" && average != "bf16")) {
    optimizer.fail("exp_avg_dtype", "'" + average + "' beside '" + square + "'");
  }
  const std::string reduced = megatron.fp32_gradients ? "fp32" : "bf16";
  if (const std::string main = optimizer.text("main_grads_dtype", reduced); main != reduced) {
    optimizer.fail("main_grads_dtype", "'" + main + "' of gradients in " + reduced);
  }
  row.absorb(optimizer.trouble());
}

/// --hierarchical-context-parallel-sizes: the ranks that exchange heads, and the number of such
/// groups in a ring.
std::int64_t read_levels(RunReader& row) {
  const JsonValue* value = row.take("hier_cp");
  const JsonValue::Array* list = value != nullptr ? value->as_array() : nullptr;
  return list != nullptr && list->size() == 2 ? list->front().as_integer().value_or(1) : 1;
}

/// Attention sinks, and sliding windows in all layers or in all layers except every Nth.
/// Source: megatron/core/transformer/utils.py, is_layer_window_attention.
void read_sinks_and_windows(RunReader& config, ModelSpec& spec) {
  spec.attention_sinks = config.text("softmax_type", "vanilla") == "learnable";
  const JsonValue* value = config.take("window_size");
  const JsonValue::Array* window = value != nullptr ? value->as_array() : nullptr;
  const std::int64_t full = config.integer("window_attn_skip_freq", 0, {0, kDegreeRange.high});
  for (std::size_t layer = 0; window != nullptr && layer < spec.layers.size(); ++layer) {
    if (full == 0 || static_cast<std::int64_t>(layer + 1) % full != 0) {
      spec.layers[layer].window = window->front().as_integer().value_or(0);
    }
  }
}

/// gpt-oss's activation, which is the only one that experts with biases support.
void read_activation(RunReader& row, RunReader& config, const ModelSpec& spec) {
  const bool biased = spec.moe && spec.moe->expert_bias;
  const bool clamped = config.number("activation_func_clamp_value", 0) > 0 &&
                       config.number("glu_linear_offset", 0) == 1;
  if (row.flag("quick_gelu", false) != biased || clamped != biased) {
    row.fail("quick_gelu", "another activation than that of its experts");
  }
  if (!config.flag("bias_activation_fusion", true)) {
    config.fail("bias_activation_fusion", "false");
  }
  // Attributes of YaRN's frequencies.
  constexpr std::array<std::string_view, 1> kAside = {"attrs"};
  row.ignore(kAside);
}

/// --fp8-param-gather, which training scripts pass to the model, its wrapper and the optimizer.
bool read_fp8_parameters(RunReader& row, RunReader& config, MegatronFp8 recipe) {
  const bool held = config.flag("fp8_param", false);
  RunReader wrapper(row.take("ddp"), "case.ddp");
  wrapper.flag("delay_wgrad_compute", false);  // It follows config.delay_wgrad_compute.
  if (wrapper.flag("fp8_param_gather", false) != held) {
    wrapper.fail("fp8_param_gather", "apart from config.fp8_param");
  }
  const bool reuses = wrapper.flag("reuse_grad_buf_for_mxfp8_param_ag", false);
  if (reuses != (held && recipe == MegatronFp8::kMxfp8)) {
    wrapper.fail("reuse_grad_buf_for_mxfp8_param_ag", reuses ? "true" : "false");
  }
  row.absorb(wrapper.trouble());
  return held;
}

void read_case_switches(RunReader& row, ParallelPlan& plan, ModelSpec& spec) {
  MegatronPlan& megatron = edit_megatron(plan);
  megatron.distributed_optimizer = row.flag("dist_opt", false);
  megatron.optimizer_instances = row.integer("dist_opt_instances", 1, kDegreeRange);
  megatron.deterministic = row.flag("deterministic", false);
  megatron.rope_fusion = row.flag("rope_fusion", true);
  megatron.overlap_grad_reduce = row.flag("overlap_grad_reduce", false);
  megatron.overlap_param_gather = row.flag("overlap_param_gather", false);
  megatron.accumulation_fusion = row.flag("grad_accum_fusion", false);
  megatron.fp32_gradients = row.flag("grad_reduce_fp32", true);
  megatron.cross_entropy =
      row.flag("ce_fusion", false) ? MegatronCrossEntropy::kNative : MegatronCrossEntropy::kUnfused;
  RunReader config(row.take("config"), "case.config");  // Fields of TransformerConfig.
  constexpr std::array<RowWord<MegatronContext>, 3> kContexts = {
      {{"p2p", MegatronContext::kRing},
       {"a2a", MegatronContext::kAllToAll},
       {"a2a+p2p", MegatronContext::kRing}}};
  megatron.context_exchange = config.word<MegatronContext>("cp_comm_type", "p2p", kContexts);
  megatron.context_exchange_ranks = read_levels(row);
  const std::string format = config.text("fp8", "none");
  if (format != "none" && format != "hybrid" && format != "e4m3") {
    config.fail("fp8", "'" + format + "'");
  }
  constexpr std::array<RowWord<MegatronFp8>, 4> kRecipes = {
      {{"delayed", MegatronFp8::kDelayed},
       {"tensorwise", MegatronFp8::kTensorwise},
       {"blockwise", MegatronFp8::kBlockwise},
       {"mxfp8", MegatronFp8::kMxfp8}}};
  const MegatronFp8 recipe = config.word<MegatronFp8>("fp8_recipe", "delayed", kRecipes);
  megatron.fp8 = format == "none" ? MegatronFp8::kNone : recipe;
  megatron.fp8_parameters = read_fp8_parameters(row, config, recipe);
  const std::string implementation = config.text("cross_entropy_fusion_impl", "native");
  if (megatron.cross_entropy == MegatronCrossEntropy::kNative && implementation == "te") {
    megatron.cross_entropy = MegatronCrossEntropy::kTransformerEngine;
  }
  megatron.first_stage_layers =
      config.integer("num_layers_in_first_pipeline_stage", 0, {0, kDegreeRange.high});
  megatron.last_stage_layers =
      config.integer("num_layers_in_last_pipeline_stage", 0, {0, kDegreeRange.high});
  megatron.account_for_embedding = config.flag("account_for_embedding_in_pipeline_split", false);
  megatron.account_for_loss = config.flag("account_for_loss_in_pipeline_split", false);
  megatron.pipeline_layout = config.text("pipeline_model_parallel_layout", "");
  megatron.micro_batch_group =
      config.integer("microbatch_group_size_per_vp_stage", 0, {0, kDegreeRange.high});
  megatron.overlap_warmup_flush = config.flag("overlap_p2p_comm_warmup_flush", false);
  megatron.defer_head_gradient = config.flag("defer_embedding_wgrad_compute", false);
  read_activation_offload(config, megatron);
  read_layer_offload(config, megatron);
  megatron.overlap_expert_exchange = config.flag("overlap_moe_expert_parallel_comm", false);
  megatron.delayed_weight_gradients = config.flag("delay_wgrad_compute", false);
  megatron.mtp_layers = config.integer("mtp_num_layers", 0, {0, kDegreeRange.high});
  constexpr std::array<std::string_view, 2> kAside = {"wgrad_deferral_limit",
                                                      "mtp_loss_scaling_factor"};
  config.ignore(kAside);
  read_sinks_and_windows(config, spec);
  read_activation(row, config, spec);
  row.absorb(config.trouble());
  read_case_optimizer(row, megatron);
  megatron.mask_in_dataloader = row.flag("mask_in_dataloader", true);
  megatron.perform_initialization = row.flag("init", false);
  constexpr std::array<RowWord<MegatronAttention>, 3> kAttention = {
      {{"fused", MegatronAttention::kFused},
       {"flash", MegatronAttention::kFlash},
       {"unfused", MegatronAttention::kUnfused}}};
  megatron.attention = row.word<MegatronAttention>("attention", "auto", kAttention);
  constexpr std::array<RowWord<Precision>, 3> kTypes = {{{"bf16", Precision::kBf16Master},
                                                         {"fp16", Precision::kFp16Master},
                                                         {"fp32", Precision::kFp32}}};
  plan.precision = row.word<Precision>("dtype", "bf16", kTypes);
  constexpr std::array<RowWord<bool>, 2> kSpecs = {{{"te", true}, {"local", false}}};
  edit_megatron(plan).transformer_engine = row.word<bool>("spec", "te", kSpecs);
  if (!megatron_of(plan).transformer_engine) {
    edit_megatron(plan).attention = MegatronAttention::kUnfused;
  }
}

/// Switches of which only the usual setting is modelled, with the modules that they affect.
void read_usual(RunReader& row, const ModelSpec& spec) {
  struct Usual {
    std::string_view key;
    bool value;
  };
  const bool biased = spec.moe && spec.moe->expert_bias;
  const std::array<Usual, 5> usuals = {{{"bias_gelu_fusion", true},
                                        {"bias_dropout_fusion", !biased},
                                        {"qk_layer_scaling", false},
                                        {"retain_batches", false},
                                        {"expandable", false}}};
  for (const Usual& usual : usuals) {
    if (row.flag(usual.key, usual.value) != usual.value) {
      row.fail(usual.key, usual.value ? "false" : "true");
    }
  }
  // Transformer Engine computes softmax in fp32 with either setting.
  constexpr std::array<std::string_view, 2> kLocal = {"attention_softmax_in_fp32",
                                                      "masked_softmax_fusion"};
  row.ignore(kLocal);
}

}  // namespace

std::string recorded_parallel(const JsonValue& setting) {
  return degrees_of(setting);
}

void read_recorded_run(RunReader& row, Recorder /*recorder*/, RunSetting& run) {
  // The recording replaces Transformer Engine's attention by a stand-in. Experts are padded, so the
  // host does not read their row counts.
  run.counted = {.attention = false, .zeroing = false, .expert_series = true};
  read_recorded_gpu(row, run);
  ParallelPlan& plan = run.plan;
  plan.runtime = "megatron";
  edit_megatron(plan) = {};
  // Communicators are made at once or on first use; they use no memory of PyTorch's allocator. The
  // environment states which attention backends are allowed, and `attention` which one ran.
  constexpr std::array<std::string_view, 10> kAside = {"eager_nccl",
                                                       "events",
                                                       "env",
                                                       "tag",
                                                       "flash_attn2",
                                                       "pre",
                                                       "average_in_collective",
                                                       "per_token_loss",
                                                       "log_params_norm",
                                                       "log_zeros"};
  row.ignore(kAside);
  RunReader model(row.take("model"), "case.model");
  read_case_model(model, plan, run.model);
  row.absorb(model.trouble());
  read_usual(row, run.model);
  RunReader recompute(row.take("recompute"), "case.recompute");
  read_case_recompute(recompute, edit_megatron(plan));
  row.absorb(recompute.trouble());
  read_case_degrees(row, plan);
  read_case_switches(row, plan, run.model);
  run.rank = Rank{static_cast<std::int32_t>(row.integer("rank", 0, {0, 1 << 20}))};
  plan.workload.micro_batch = row.integer("micro_batch", 1, kBatchRange);
  plan.workload.accumulation = row.integer("microbatches", 1, {1, 1 << 12});
  plan.workload.steps = static_cast<int>(row.integer("steps", 3, {0, 64}));
}

}  // namespace headroom::ir::megatron
