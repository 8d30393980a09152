// Runs of Megatron-LM whose training script's arguments are published: the golden values of its
// functional tests.

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtimes/interface/runs/run_reader.h"
#include "runtimes/megatron/measured_runs.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::ir::megatron {
namespace {

/// Arguments that do not affect PyTorch's allocator on the device.
constexpr std::array<std::string_view, 21> kIgnoredArguments = {
    "train-iters",
    "train-samples",
    "use-mcore-models",
    "mock-data",
    "tokenizer-type",
    "decoupled-lr",
    "decoupled-min-lr",
    "disable-gloo-process-groups",
    "calculate-per-token-loss",
    "ddp-average-in-collective",
    "use-tp-pp-dp-mapping",
    "overlap-param-gather-with-optimizer-step",
    "norm-epsilon",
    "rotary-base",
    "rotary-interleaved",
    "attention-softmax-in-fp32",
    "moe-aux-loss-coeff",
    "enable-experimental",
    "group-query-attention",
    "rampup-batch-size",
    "apply-layernorm-1p"};

/// The script's arguments are strings: "true", "512", "1e-2".
JsonValue typed(const std::string& text) {
  if (text == "true" || text == "false") {
    return JsonValue{text == "true"};
  }
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole); read.ptr == end) {
    return JsonValue{whole};
  }
  double number = 0;
  if (const auto read = std::from_chars(text.data(), end, number); read.ptr == end) {
    return JsonValue{number};
  }
  return JsonValue{text};
}

JsonValue typed_arguments(const JsonValue* arguments) {
  JsonValue::Object object;
  if (arguments != nullptr && arguments->as_object() != nullptr) {
    for (const JsonMember& member : *arguments->as_object()) {
      const std::string* text = member.value.as_string();
      object.push_back({member.key, text != nullptr ? typed(*text) : member.value});
    }
  }
  return JsonValue{std::move(object)};
}

/// What a row states besides the arguments.
struct Surroundings {
  const JsonValue* environment = nullptr;
  std::string version;
  std::int64_t vocabulary = 0;
  DeviceTraits device;
};

/// Whether the environment enables a feature. A missing variable enables it.
bool environment_allows(const JsonValue* environment, std::string_view key) {
  const JsonValue* value = environment != nullptr ? environment->find(key) : nullptr;
  return value == nullptr || value->as_string() == nullptr || *value->as_string() != "0";
}

/// Norms, biases, activation, positions and dropout.
void read_layer_form_arguments(RunReader& args, ModelSpec& spec) {
  constexpr std::array<RowWord<NormKind>, 2> kNorms = {
      {{"LayerNorm", NormKind::kLayer}, {"RMSNorm", NormKind::kRms}}};
  constexpr std::array<RowWord<PositionKind>, 3> kPositions = {
      {{"learned_absolute", PositionKind::kLearned},
       {"rope", PositionKind::kRope},
       {"none", PositionKind::kNone}}};
  spec.norm = args.word<NormKind>("normalization", "LayerNorm", kNorms);
  spec.position =
      args.word<PositionKind>("position-embedding-type", "learned_absolute", kPositions);
  spec.rope_fraction = args.number("rotary-percent", 1.0);
  spec.gated_mlp = args.flag("swiglu", false);
  spec.activation = spec.gated_mlp ? Activation::kSilu : Activation::kGelu;
  const bool bias = !args.flag("disable-bias-linear", false);
  spec.qkv_bias = bias;
  spec.output_bias = bias;
  spec.mlp_bias = bias;
  spec.qk_norm = args.flag("qk-layernorm", false) ? QkNorm::kPerHead : QkNorm::kNone;
  spec.tied_embeddings = !args.flag("untie-embeddings-and-output-weights", false);
  const double hidden = args.number("hidden-dropout", 0.1);
  spec.dropout = {.embedding = hidden,
                  .attention = args.number("attention-dropout", 0.1),
                  .residual = hidden,
                  .activation = 0};
}

/// `vocabulary`: the size of the tokenizer's vocabulary that the row states.
void read_model_arguments(RunReader& args, std::int64_t vocabulary, PublishedRun& run) {
  ModelSpec& spec = run.model;
  spec.name = "arguments";
  spec.hidden = args.integer("hidden-size", 0, kSizeRange);
  spec.embedding_dim = spec.hidden;
  spec.heads = args.integer("num-attention-heads", 1, kSizeRange);
  spec.kv_heads = args.integer("num-query-groups", spec.heads, kSizeRange);
  spec.head_dim = args.integer("kv-channels", spec.hidden / spec.heads, kSizeRange);
  spec.layers.resize(static_cast<std::size_t>(args.integer("num-layers", 1, {1, 1 << 12})));
  read_layer_form_arguments(args, spec);
  // Source: arguments.py, validate_args: two thirds of 4 H, in multiples of 64.
  constexpr std::int64_t kMultiple = 64;
  const std::int64_t usual =
      spec.gated_mlp ? spec.hidden * 8 / 3 / kMultiple * kMultiple : 4 * spec.hidden;
  spec.ffn = args.integer("ffn-hidden-size", usual, kSizeRange);
  run.plan.workload.sequence = args.integer("seq-length", 0, kSequenceRange);
  spec.max_positions = args.integer("max-position-embeddings", 0, kSizeRange);
  // NullTokenizer adds an end-of-document token.
  spec.vocabulary = args.integer("vocab-size", vocabulary - 1, kSizeRange) + 1;
  edit_megatron(run.plan).vocabulary_divisor =
      args.integer("make-vocab-size-divisible-by", 128, kSizeRange);
}

/// --num-virtual-stages-per-pipeline-rank is another way to state the layers of a chunk.
void read_virtual_stages(RunReader& args, std::int64_t layers, ParallelPlan& plan) {
  const std::int64_t chunks = args.integer("num-virtual-stages-per-pipeline-rank", 0, kDegreeRange);
  if (chunks > 0) {
    edit_megatron(plan).layers_per_chunk = even_stage_layers(plan, layers) / chunks;
  }
}

void read_degree_arguments(RunReader& args, ParallelPlan& plan) {
  MegatronPlan& megatron = edit_megatron(plan);
  plan.mesh.tensor = args.integer("tensor-model-parallel-size", 1, kDegreeRange);
  plan.mesh.pipeline = args.integer("pipeline-model-parallel-size", 1, kDegreeRange);
  plan.mesh.context = args.integer("context-parallel-size", 1, kDegreeRange);
  plan.mesh.expert = args.integer("expert-model-parallel-size", 1, kDegreeRange);
  plan.mesh.expert_tensor = args.integer("expert-tensor-parallel-size", 0, kDegreeRange);
  megatron.layers_per_chunk =
      args.integer("num-layers-per-virtual-pipeline-stage", 0, {0, kDegreeRange.high});
  megatron.first_stage_layers =
      args.integer("decoder-first-pipeline-num-layers", 0, {0, kDegreeRange.high});
  megatron.last_stage_layers =
      args.integer("decoder-last-pipeline-num-layers", 0, {0, kDegreeRange.high});
  megatron.account_for_embedding = args.flag("account-for-embedding-in-pipeline-split", false);
  megatron.account_for_loss = args.flag("account-for-loss-in-pipeline-split", false);
  megatron.micro_batch_group =
      args.integer("microbatch-group-size-per-virtual-pipeline-stage", 0, {0, kDegreeRange.high});
  megatron.overlap_warmup_flush = args.flag("overlap-p2p-communication-warmup-flush", false);
  megatron.sequence_parallel = args.flag("sequence-parallel", false) && plan.mesh.tensor > 1;
  plan.workload.micro_batch = args.integer("micro-batch-size", 0, kBatchRange);
  const std::int64_t ranks = plan.world /
                             (plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context) *
                             plan.workload.micro_batch;
  const std::int64_t batch = args.integer("global-batch-size", ranks, {1, 1 << 24});
  plan.workload.accumulation = ranks > 0 ? std::max<std::int64_t>(1, batch / ranks) : 1;
}

void read_switch_arguments(RunReader& args, ParallelPlan& plan) {
  MegatronPlan& megatron = edit_megatron(plan);
  megatron.distributed_optimizer = args.flag("use-distributed-optimizer", false);
  megatron.optimizer_instances =
      args.integer("num-distributed-optimizer-instances", 1, kDegreeRange);
  megatron.deterministic = args.flag("deterministic-mode", false);
  megatron.rope_fusion = !args.flag("no-rope-fusion", false);
  megatron.overlap_grad_reduce = args.flag("overlap-grad-reduce", false);
  megatron.overlap_param_gather = args.flag("overlap-param-gather", false);
  megatron.accumulation_fusion = !args.flag("no-gradient-accumulation-fusion", false);
  megatron.mask_in_dataloader = !args.flag("no-create-attention-mask-in-dataloader", false);
  if (args.flag("cross-entropy-loss-fusion", false)) {
    constexpr std::array<RowWord<MegatronCrossEntropy>, 2> kForms = {
        {{"native", MegatronCrossEntropy::kNative},
         {"te", MegatronCrossEntropy::kTransformerEngine}}};
    megatron.cross_entropy =
        args.word<MegatronCrossEntropy>("cross-entropy-fusion-impl", "native", kForms);
  }
  const bool half = args.flag("fp16", false);
  plan.precision = half                       ? Precision::kFp16Master
                   : args.flag("bf16", false) ? Precision::kBf16Master
                                              : Precision::kFp32;
}

/// Arguments of experts, which are in every layer.
void read_expert_arguments(RunReader& args, PublishedRun& run) {
  const std::int64_t experts = args.integer("num-experts", 0, {0, kSizeRange.high});
  if (experts == 0) {
    return;
  }
  ModelSpec& spec = run.model;
  MegatronPlan& plan = edit_megatron(run.plan);
  MoeSpec moe;
  moe.experts = experts;
  moe.top_k = args.integer("moe-router-topk", 2, kSizeRange);
  moe.expert_ffn = args.integer("moe-ffn-hidden-size", spec.ffn, kSizeRange);
  moe.shared_ffn = args.integer("moe-shared-expert-intermediate-size", 0, {0, kSizeRange.high});
  spec.moe = moe;
  for (LayerSpec& layer : spec.layers) {
    layer.moe = true;
  }
  enum class Balance : std::uint8_t { kAuxLoss, kNone, kSinkhorn };
  constexpr std::array<RowWord<Balance>, 3> kBalances = {{{"aux_loss", Balance::kAuxLoss},
                                                          {"none", Balance::kNone},
                                                          {"sinkhorn", Balance::kSinkhorn}}};
  const auto balance = args.word<Balance>("moe-router-load-balancing-type", "aux_loss", kBalances);
  plan.aux_loss = balance == Balance::kAuxLoss;
  plan.sinkhorn = balance == Balance::kSinkhorn;
  constexpr std::array<RowWord<MegatronDispatcher>, 2> kDispatchers = {
      {{"allgather", MegatronDispatcher::kAllGather}, {"alltoall", MegatronDispatcher::kAllToAll}}};
  plan.dispatcher =
      args.word<MegatronDispatcher>("moe-token-dispatcher-type", "allgather", kDispatchers);
  plan.grouped_gemm = args.flag("moe-grouped-gemm", false);
  plan.permute_fusion = args.flag("moe-permute-fusion", false);
  plan.overlap_expert_exchange = args.flag("overlap-moe-expert-parallel-comm", false);
  plan.delayed_weight_gradients = args.flag("delay-wgrad-compute", false);
  plan.router_fp32 = args.text("moe-router-dtype", "") == "fp32";
  args.flag("no-bias-gelu-fusion", false);  // GELU of experts has no fused form.
}

void read_recompute_arguments(RunReader& args, MegatronPlan& plan) {
  const std::string granularity = args.text("recompute-granularity", "");
  if (granularity.empty()) {
    return;
  }
  constexpr std::array<RowWord<MegatronRecompute>, 2> kMethods = {
      {{"uniform", MegatronRecompute::kFullUniform}, {"block", MegatronRecompute::kFullBlock}}};
  if (granularity == "full") {
    plan.recompute = args.word<MegatronRecompute>("recompute-method", "uniform", kMethods);
    plan.recompute_layers = args.integer("recompute-num-layers", 1, kDegreeRange);
    return;
  }
  args.fail("recompute-granularity", "'" + granularity + "'");
}

/// The attention backend that Transformer Engine chooses if none is requested. It is cuDNN's from
/// compute capability 9.0 on and FlashAttention before. It is FlashAttention on 10.0, too, if only
/// deterministic kernels are allowed.
/// Source: transformer_engine/pytorch/attention/dot_product_attention/utils.py,
///         get_attention_backend.
MegatronAttention chosen_attention(const DeviceTraits& device, bool deterministic) {
  const bool fused = device.compute_major == 9 || (device.compute_major > 9 && !deterministic);
  return fused ? MegatronAttention::kFused : MegatronAttention::kFlash;
}

/// The long-term support containers had no FlashAttention before November 2025. So A100 GPUs had no
/// fused backend that is deterministic: their rows equal, to the byte, those with
/// --attention-backend unfused.
bool lacks_flash_attention(std::string_view version) {
  return version.starts_with("lts container") && version.find("2025-10") != std::string_view::npos;
}

void read_attention_backend(RunReader& args, const Surroundings& around, PublishedRun& run) {
  constexpr std::array<RowWord<MegatronAttention>, 3> kBackends = {
      {{"fused", MegatronAttention::kFused},
       {"flash", MegatronAttention::kFlash},
       {"unfused", MegatronAttention::kUnfused}}};
  const bool deterministic =
      !environment_allows(around.environment, "NVTE_ALLOW_NONDETERMINISTIC_ALGO");
  const bool without_flash = deterministic && lacks_flash_attention(around.version);
  std::string_view absent = "unfused";
  const MegatronAttention chosen =
      without_flash ? MegatronAttention::kUnfused : chosen_attention(around.device, deterministic);
  for (const RowWord<MegatronAttention>& each : kBackends) {
    absent = each.value == chosen ? each.word : absent;
  }
  edit_megatron(run.plan).attention =
      args.word<MegatronAttention>("attention-backend", absent, kBackends);
  constexpr std::array<RowWord<bool>, 2> kSpecs = {
      {{"transformer_engine", true}, {"local", false}}};
  edit_megatron(run.plan).transformer_engine =
      args.word<bool>("transformer-impl", "transformer_engine", kSpecs);
  if (!megatron_of(run.plan).transformer_engine) {
    edit_megatron(run.plan).attention = MegatronAttention::kUnfused;
    args.flag("apply-query-key-layer-scaling", false);  // It is a factor in the fused softmax.
  }
}

void read_arguments(RunReader& args, const Surroundings& around, PublishedRun& run) {
  args.ignore(kIgnoredArguments);
  read_model_arguments(args, around.vocabulary, run);
  read_expert_arguments(args, run);
  read_degree_arguments(args, run.plan);
  read_virtual_stages(args, static_cast<std::int64_t>(run.model.layers.size()), run.plan);
  read_switch_arguments(args, run.plan);
  read_recompute_arguments(args, edit_megatron(run.plan));
  read_attention_backend(args, around, run);
  // Source: NVIDIA/Megatron-LM 1501c0f33a of 2026-01-16, which joined two parts of each layer.
  if (megatron_of(run.plan).overlap_expert_exchange &&
      around.version.find("last changed 2025") != std::string::npos) {
    args.fail("overlap-moe-expert-parallel-comm", "a schedule of 2025, with one part more");
  }
}

void read_run_by_arguments(RunReader& row, const JsonValue& other,
                           const std::optional<DeviceTraits>& gpu, PublishedRun& run) {
  const std::int64_t world = row.stated("num_gpus", kWorldRange);
  RunReader model(row.take("model"), "model");
  model.expect_one_of("arch", {"gpt"});
  Surroundings around{.environment = other.find("env"),
                      .version = row.text("framework_version", ""),
                      .vocabulary = model.stated("vocab", kSizeRange),
                      .device = gpu.value_or(DeviceTraits{})};
  model.ignore_rest();
  row.absorb(model.trouble());
  row.ignore_rest();  // The arguments state more than the row's columns.
  if (row.failed() || !gpu) {
    return;
  }
  run.plan.runtime = "megatron";
  edit_megatron(run.plan) = {};
  run.plan.world = world;
  run.plan.workload.steps = 3;
  run.rank = Rank{static_cast<std::int32_t>(world - 1)};
  const JsonValue arguments = typed_arguments(other.find("model_args"));
  RunReader args(&arguments, "other.model_args");
  read_arguments(args, around, run);
  row.absorb(args.trouble());
}

}  // namespace

void read_megatron_lm_run(RunReader& row, const std::optional<DeviceTraits>& gpu,
                          PublishedRun& run) {
  const JsonValue* other = row.peek("other");
  if (other != nullptr && other->find("model_args") != nullptr) {
    read_run_by_arguments(row, *other, gpu, run);
  } else {
    read_published_run(row, gpu, run);
  }
}

}  // namespace headroom::ir::megatron
