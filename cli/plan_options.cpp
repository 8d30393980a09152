#include "cli/plan_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/plan_values.h"
#include "cli/scalars.h"
#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/deepspeed/config.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

using ir::ParallelPlan;

constexpr std::int64_t kUsualSequence = 2048;

constexpr std::array<OptionSpec, 36> kOptions = {
    {{"gpus", "N", "1", "ranks, one per GPU; without ZeRO they are data parallel (DDP)"},
     {"rank", "R", "the one that binds", "the rank that is shown"},
     {"runtime", "NAME",
      "transformers; the framework whose options are given (--zero, --fsdp, --megatron ...)",
      "framework: transformers (Trainer or Accelerate on PyTorch), deepspeed, fsdp (PyTorch's "
      "fully_shard), megatron, torchtitan, torchtune or litgpt"},
     {"runtime-version", "V", "newest",
      "version of transformers: 4.44 to 5.17; under torchtitan of PyTorch: 2.6 to 2.11"},
     {"zero", "STAGE", "", "ZeRO stage 0 to 3 of DeepSpeed"},
     {"decay-groups", "", "",
      "under ZeRO: norms and biases are a parameter group of their own, as Trainer makes them"},
     {"offload", "SPEC", "",
      "what ZeRO keeps off the GPU: optimizer=cpu|nvme,param=cpu|nvme,path=DIR, "
      "optimizer-ratio=SHARE (of stage 3's sub-groups on the host)"},
     {"zeropp", "SPEC", "",
      "ZeRO++ and leaf modules at stage 3: hpz=N (ranks of a second partition), qwz and qgz "
      "(quantised weights, gradients), node=N (devices of a node), leaf=default|experts"},
     {"precision", "RECIPE", "bf16; fp32 with --fsdp, bf16-master with --zero",
      "fp32, bf16, fp16 (parameters, gradients and states), autocast-bf16, autocast-fp16 (fp32 "
      "parameters), bf16-autocast (bf16 parameters), bf16-master, fp16-master (fp32 master copy; "
      "what DeepSpeed means by bf16 and fp16)"},
     {"micro-batch", "B", "1", "sequences per forward of one rank"},
     {"seq", "S", "2048, or all positions of a model that has fewer", "tokens per sequence"},
     {"accumulation", "N", "1", "micro-batches per optimizer step"},
     {"checkpointing", "WHICH", "none",
      "layers computed again in backward: none, full, full-reentrant, every-K"},
     {"optimizer", "NAME", "adamw, under torchtitan's code adamw-fused",
      "adamw (foreach), adamw-fused, adamw-loop, adamw-8bit, paged-adamw-8bit, "
      "paged-adamw-32bit, sgd, sgd-momentum, "
      "sgd-fused, sgd-momentum-fused, adafactor, adafactor-torch, lion, lion-8bit, "
      "paged-lion-8bit, muon (AdamW for what is no matrix of a layer), none"},
     {"attention", "KIND", "sdpa", "sdpa, eager, flash (FlashAttention 2) or sdpa-no-cudnn"},
     {"loss", "KIND", "hf", "hf (fp32 logits), chunked, fused-linear (Liger)"},
     {"model-code", "NAME", "", "older spelling of --runtime litgpt, torchtune or torchtitan"},
     {"liger", "", "", "Liger's kernels for norms, gated MLPs and rotary embedding"},
     {"generate", "N", "", "tokens generated after the steps, from prompts of --seq tokens"},
     {"lora", "SPEC", "",
      "adapters: r=16,targets=q_proj+v_proj,dropout=0.05,dora,rslora and save=lm_head"},
     {"qlora", "SPEC", "",
      "adapters on quantised weights: as --lora, and bits=4|8,double-quant=yes|no,prepare=yes|no"},
     {"ddp", "SPEC", "bucket=25MiB", "DistributedDataParallel: bucket=SIZE,bucket-view"},
     {"fsdp", "SPEC", "reshard=yes,param=bf16,reduce=fp32",
      "fully_shard: reshard=yes|no|N (to N ranks),embeddings,decoder=yes|no (layers of a T5's "
      "decoder as groups),offload (to the host),replicas=N and the types param=T,reduce=T; "
      "version=1 (FullyShardedDataParallel) with prefetch=pre|post|none, forward-prefetch, "
      "orig-params=no; replicas=WORLD is NO_SHARD there; "
      "--precision says what the shards are stored in"},
     {"titan", "SPEC", "tp=1,reshard=default",
      "torchtitan's code on fsdp: tp=N (tensor and sequence parallel), cp=N (ring attention), "
      "ep=N (experts among ranks that share data), etp=N (of experts: 1 or tp), "
      "compiled, pp=N with schedule=gpipe|1f1b|interleaved|zb-h1|zb-v|dualpipev, pp-batch=N "
      "(sequences that go through it together), pp-layers=N (of a stage), pp-first-less=N, "
      "pp-last-less=N (layers that embedding and head count for), "
      "reshard=default|always|never, loss-parallel=no, selective (checkpointing by operators), "
      "memory-budget=SHARE (0 to 1, of what compiled blocks keep), "
      "float8=tensorwise (with fp8-all-gather, precompute-scale)|rowwise|rowwise-gw-hp (compiled)"},
     {"tune", "SPEC", "compiled=no",
      "torchtune's code: compiled (layers and loss), optimizer-in-backward, offload-activations"},
     {"megatron", "SPEC", "tp=1",
      "Megatron-Core, keys with commas between: tp=N, pp=N, cp=N, ep=N, etp=N, "
      "layers-per-virtual-stage=N, first-stage-layers=N, last-stage-layers=N, "
      "account-for-embedding, account-for-loss, "
      "pipeline-layout=LAYOUT (layers of every chunk, as Et*4|(t*4|)*14tmL), use-tp-pp-dp-mapping "
      "(stages next to each other), "
      "micro-batch-group=N, sequence-parallel, tp-comm-overlap, "
      "distributed-optimizer, optimizer-instances=N, precision-aware, bf16-moments, "
      "optimizer-offload=SHARE (to the host), mtp-layers=N, deterministic, "
      "overlap-grad-reduce, overlap-param-gather, gradient-accumulation-fusion=no, "
      "fp32-gradients=no, cross-entropy-fusion=native|te, mask-in-dataloader=no, "
      "attention=fused|flash|unfused, cp-comm-type=p2p|a2a, "
      "cp-exchange-ranks=N (a2a+p2p: N exchange heads, the rest is a ring), "
      "fp8-recipe=delayed|tensorwise|blockwise|mxfp8, fp8-param-gather, "
      "recompute=selective|uniform|block, "
      "recompute-modules=A+B (core_attn, layernorm, mlp, moe, moe_act, shared_experts, "
      "mla_up_proj), "
      "recompute-layers=N, offload-modules=A+B (attn_norm, qkv_linear, core_attn, attn_proj, "
      "mlp_norm, expert_fc1, moe_act: what they save goes to the host), "
      "min-offloaded-tensor-size=N (elements), "
      "cpu-offloading-num-layers=N (of the first N layers: all that they save), capacity-factor=X, "
      "permute-fusion, aux-loss=no, sinkhorn, router-fp32, "
      "dispatcher=alltoall|allgather|hybridep, grouped-gemm=no, "
      "shared-expert-overlap, "
      "expert-load=X, rope-fusion=no, transformer-engine=no, perform-initialization=no, "
      "vocabulary-divisor=N"},
     {"alloc-conf", "CONF", "", "PYTORCH_ALLOC_CONF: expandable_segments:True,..."},
     {"clip-norm", "X", "", "clip the gradients' norm at X"},
     {"padded", "", "", "batches hold padding: an attention mask is passed"},
     {"keep-logits", "", "", "the model's output lives until backward has ended"},
     {"keep-batch", "", "", "ids and labels live until the next batch, as in Trainer's loop"},
     {"evaluation", "", "", "one forward in evaluation mode after the steps"},
     {"save", "", "", "a checkpoint is saved after the steps"},
     {"steps", "N", "2", "optimizer steps that are replayed"},
     {"plan", "FILE", "", "a plan as JSON; options change it"},
     {"deepspeed", "FILE", "",
      "a DeepSpeed configuration; options change it and fill its \"auto\""}}};

/// Reads one option after the other; the first fault stays.
class OptionReader {
 public:
  explicit OptionReader(const Arguments& arguments) : arguments_(&arguments) {}

  [[nodiscard]] bool has(std::string_view name) const { return arguments_->has(name); }

  template <typename Value>
  void word(std::string_view name, std::span<const ir::Word<Value>> words, Value& value) {
    if (const auto text = arguments_->value(name)) {
      keep(ir::parse_word(words, name, *text), value);
    }
  }
  void whole(std::string_view name, std::int64_t least, std::int64_t greatest,
             std::int64_t& value) {
    if (const auto text = arguments_->value(name)) {
      keep(parse_whole(name, *text, least, greatest), value);
    }
  }
  /// Hands the text of an option that was given to `parse`, and what comes back to `value`.
  template <typename Value, typename Parse>
  void with(std::string_view name, Value& value, Parse parse) {
    if (const auto text = arguments_->value(name)) {
      keep(parse(*text), value);
    }
  }
  void flag(std::string_view name, bool& value) const { value = value || has(name); }
  void text(std::string_view name, std::string& value) const {
    value = arguments_->value(name).value_or(value);
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  template <typename From, typename To>
  void keep(const Result<From>& result, To& value) {
    if (result) {
      value = *result;
    } else if (!error_) {
      error_ = result.error();
    }
  }

  const Arguments* arguments_;
  std::optional<Error> error_;
};

void read_sizes(OptionReader& reader, ParallelPlan& plan) {
  reader.whole("gpus", 1, ir::kMostRanks, plan.world);
  if (reader.has("rank")) {
    std::int64_t rank = 0;
    reader.whole("rank", 0, ir::kMostRanks - 1, rank);
    plan.rank = rank;
  }
  reader.whole("micro-batch", 1, ir::kMostMicroBatch, plan.micro_batch);
  reader.whole("seq", 1, ir::kMostSequence, plan.sequence);
  reader.whole("accumulation", 1, ir::kMostAccumulation, plan.accumulation);
  std::int64_t steps = plan.steps;
  reader.whole("steps", 1, ir::kMostSteps, steps);
  plan.steps = static_cast<int>(steps);
  reader.with("clip-norm", plan.clip_norm,
              [](const std::string& text) { return parse_real("clip-norm", text, 1e-12, 1e12); });
}

/// torchtune shards where the plan has FSDP's part.
bool shards_by_fsdp(const ParallelPlan& plan) {
  return plan.runtime == "fsdp" || plan.runtime == "torchtitan" ||
         (plan.runtime == "torchtune" && plan.fsdp);
}

/// `--fsdp` alone says enough; shards are fp32 unless something else is asked for.
void read_fsdp(OptionReader& reader, ParallelPlan& plan) {
  if (!shards_by_fsdp(plan) && !reader.has("fsdp")) {
    plan.fsdp.reset();
    return;
  }
  if (!plan.fsdp && !reader.has("precision")) {
    plan.precision = ir::Precision::kFp32;
  }
  const ir::FsdpPlan usual = plan.fsdp.value_or(ir::FsdpPlan{});
  plan.fsdp = usual;
  reader.with("fsdp", plan.fsdp, [&](const std::string& text) { return parse_fsdp(text, usual); });
}

/// `--titan` alone says enough.
void read_titan(OptionReader& reader, ParallelPlan& plan) {
  if (!reader.has("titan")) {
    return;
  }
  const ir::TitanPlan usual = plan.titan.value_or(ir::TitanPlan{});
  reader.with("titan", plan.titan,
              [&](const std::string& text) { return parse_titan(text, usual); });
}

/// `--tune` alone says enough.
void read_tune(OptionReader& reader, ParallelPlan& plan) {
  if (!reader.has("tune")) {
    return;
  }
  const ir::TunePlan usual = plan.tune.value_or(ir::TunePlan{});
  reader.with("tune", plan.tune, [&](const std::string& text) { return parse_tune(text, usual); });
}

/// `--megatron` alone says enough.
void read_megatron(OptionReader& reader, ParallelPlan& plan) {
  if (plan.runtime != "megatron" && !reader.has("megatron")) {
    plan.megatron.reset();
    return;
  }
  const ir::MegatronPlan usual = plan.megatron.value_or(ir::MegatronPlan{});
  plan.megatron = usual;
  reader.with("megatron", plan.megatron,
              [&](const std::string& text) { return parse_megatron(text, usual); });
}

/// The framework: the one that is named, else the one whose options are given.
void read_runtime(OptionReader& reader, ParallelPlan& plan) {
  if (reader.has("zero") || reader.has("offload")) {
    plan.runtime = "deepspeed";
  } else if (reader.has("titan")) {
    plan.runtime = "torchtitan";
  } else if (reader.has("tune")) {
    plan.runtime = "torchtune";
  } else if (reader.has("fsdp")) {
    plan.runtime = shards_by_fsdp(plan) ? plan.runtime : "fsdp";
  } else if (reader.has("megatron")) {
    plan.runtime = "megatron";
  }
  const auto name = [](std::string_view option) {
    return [option](const std::string& text) -> Result<std::string> {
      if (ir::find_runtime(text) != nullptr) {
        return text;
      }
      const std::vector<std::string> known = ir::runtime_names();
      return Error::invalid_argument(option, text, "one of " + ir::join(known),
                                     ir::suggestion(text, known));
    };
  };
  reader.with("runtime", plan.runtime, name("runtime"));
  std::string code = "transformers";
  reader.with("model-code", code, name("model-code"));
  if (code != "transformers") {
    if (plan.runtime == "fsdp" && !plan.fsdp) {
      plan.fsdp.emplace();
      plan.precision = reader.has("precision") ? plan.precision : ir::Precision::kFp32;
    }
    plan.runtime = code;
  }
  reader.text("runtime-version", plan.runtime_version);
}

/// Runtime, ZeRO and DDP decide each other: `--zero` alone says enough.
void read_parallel(OptionReader& reader, ParallelPlan& plan) {
  read_runtime(reader, plan);
  if (plan.runtime == "deepspeed" || reader.has("zero") || reader.has("offload")) {
    ir::ZeroPlan zero = plan.zero.value_or(ir::ZeroPlan{});
    std::int64_t stage = zero.stage;
    reader.whole("zero", 0, 3, stage);
    zero.stage = static_cast<int>(stage);
    reader.flag("decay-groups", zero.decay_groups);
    const ir::ZeroPlan before = zero;
    reader.with("offload", zero,
                [&](const std::string& text) { return parse_offload(text, before); });
    const ir::ZeroPlan plain = zero;
    reader.with("zeropp", zero,
                [&](const std::string& text) { return parse_zero_plus(text, plain); });
    plan.zero = zero;
  }
  const bool shards = shards_by_fsdp(plan) || reader.has("fsdp") || plan.runtime == "megatron";
  if (plan.runtime != "deepspeed" && !shards) {
    if (!reader.has("zero") && !reader.has("offload")) {
      plan.zero.reset();
    }
    const ir::DdpPlan usual = plan.ddp.value_or(ir::DdpPlan{});
    if (plan.world > 1) {
      plan.ddp = usual;
    } else {
      plan.ddp.reset();
    }
    reader.with("ddp", plan.ddp, [&](const std::string& text) { return parse_ddp(text, usual); });
  } else {
    plan.ddp.reset();
    if (reader.has("ddp")) {  // For the check of the whole plan to refuse.
      reader.with("ddp", plan.ddp,
                  [](const std::string& text) { return parse_ddp(text, ir::DdpPlan{}); });
    }
  }
  if (shards && !reader.has("zero") && !reader.has("offload")) {
    plan.zero.reset();
  }
  read_fsdp(reader, plan);
  read_titan(reader, plan);
  read_tune(reader, plan);
  read_megatron(reader, plan);
}

void read_precision(OptionReader& reader, ParallelPlan& plan) {
  reader.word("precision", ir::precision_words(), plan.precision);
  const bool masters = plan.runtime == "deepspeed" || plan.runtime == "megatron";
  if (!masters) {
    return;
  }
  if (plan.precision == ir::Precision::kBf16) {
    plan.precision = ir::Precision::kBf16Master;
  } else if (plan.precision == ir::Precision::kFp16) {
    plan.precision = ir::Precision::kFp16Master;
  }
}

void read_training(OptionReader& reader, ParallelPlan& plan) {
  // A plan file says which one it has, foreach AdamW as well.
  const bool changes = reader.has("titan") || reader.has("runtime") || reader.has("model-code") ||
                       reader.has("offload") || reader.has("deepspeed");
  if (plan.optimizer == ir::OptimizerPlan{} && (changes || !reader.has("plan"))) {
    plan.optimizer = ir::runtime_of(plan).usual_optimizer(plan);
  }
  reader.word("optimizer", ir::optimizer_words(), plan.optimizer);
  reader.word("attention", ir::attention_words(), plan.attention);
  reader.word("loss", ir::loss_words(), plan.loss);
  reader.flag("liger", plan.liger);
  if (reader.has("generate")) {
    ir::GenerationPlan generation = plan.generation.value_or(ir::GenerationPlan{});
    reader.whole("generate", 1, ir::kMostSequence, generation.new_tokens);
    plan.generation = generation;
  }
  ir::Checkpointing checkpointing{plan.recompute, plan.recompute_every};
  reader.with("checkpointing", checkpointing, [](const std::string& text) {
    return ir::parse_checkpointing("checkpointing", text);
  });
  plan.recompute = checkpointing.recompute;
  plan.recompute_every = checkpointing.every;
  reader.flag("padded", plan.padded_batch);
  reader.flag("keep-logits", plan.keep_logits);
  reader.flag("keep-batch", plan.keep_batch);
  reader.flag("evaluation", plan.evaluation);
  reader.flag("save", plan.checkpoint_save);
  for (const char* option : {"lora", "qlora"}) {
    if (!reader.has(option)) {
      continue;
    }
    Adapters adapters;
    reader.with(option, adapters,
                [&](const std::string& text) { return parse_adapters(option, text); });
    plan.lora = adapters.lora;
    plan.quant = std::string_view(option) == "qlora" ? std::optional(adapters.quant) : std::nullopt;
  }
  const ir::AllocatorSettings before = plan.allocator;
  reader.with("alloc-conf", plan.allocator,
              [&](const std::string& text) { return parse_allocator_settings(text, before); });
}

Status apply(const Arguments& arguments, ParallelPlan& plan) {
  OptionReader reader(arguments);
  read_sizes(reader, plan);
  read_parallel(reader, plan);
  read_precision(reader, plan);
  read_training(reader, plan);
  return reader.error() ? Status(*reader.error()) : ok();
}

ParallelPlan usual_plan(const ir::ModelSpec& model) {
  ParallelPlan plan;
  plan.sequence =
      model.max_positions > 0 ? std::min(kUsualSequence, model.max_positions) : kUsualSequence;
  return plan;
}

/// Options of two frameworks, or two that say the same thing in two ways.
Status check_pairs(const Arguments& arguments) {
  struct Pair {
    const char* one;
    const char* other;
  };
  constexpr std::array<Pair, 8> kPairs = {{{"fsdp", "zero"},
                                           {"fsdp", "offload"},
                                           {"fsdp", "deepspeed"},
                                           {"fsdp", "megatron"},
                                           {"zero", "megatron"},
                                           {"titan", "zero"},
                                           {"titan", "megatron"},
                                           {"lora", "qlora"}}};
  for (const Pair& pair : kPairs) {
    if (arguments.has(pair.one) && arguments.has(pair.other)) {
      return Error::invalid_argument(pair.one,
                                     "--" + std::string(pair.one) + " beside --" + pair.other,
                                     "one of both", "leave the other out");
    }
  }
  return ok();
}

}  // namespace

std::span<const OptionSpec> plan_option_specs() {
  return kOptions;
}

Result<PlanRequest> read_plan_options(const Arguments& arguments, const ir::ModelSpec& model) {
  if (Status pairs = check_pairs(arguments); !pairs) {
    return std::move(pairs).error();
  }
  PlanRequest request{.plan = usual_plan(model), .notes = {}};
  if (const auto file = arguments.value("plan")) {
    const std::string path = *file == "-" ? "/dev/stdin" : *file;
    Result<ParallelPlan> plan = ir::read_plan(path, request.plan);
    if (!plan) {
      return std::move(plan).error();
    }
    request.plan = *plan;
  }
  if (Status status = apply(arguments, request.plan); !status) {
    return std::move(status).error();
  }
  const std::optional<std::string> file = arguments.value("deepspeed");
  if (!file) {
    return request;
  }
  const std::string path = *file == "-" ? "/dev/stdin" : *file;
  Result<ir::deepspeed::ConfigReading> config =
      ir::deepspeed::read_config(path, model, request.plan);
  if (!config) {
    return std::move(config).error();
  }
  request = {.plan = config->plan, .notes = config->notes};
  if (arguments.has("megatron")) {
    return Error::invalid_argument("deepspeed", *file, "no --megatron beside it",
                                   "leave out one of them");
  }
  if (arguments.value("runtime").value_or("deepspeed") != "deepspeed") {
    return Error::invalid_argument("runtime", *arguments.value("runtime"),
                                   "deepspeed, which --deepspeed is for");
  }
  const Status status = apply(arguments, request.plan);
  return status ? Result<PlanRequest>(request) : Result<PlanRequest>(status.error());
}

std::vector<OptionValue> usual_options() {
  return {{"gpus", "1"},
          {"precision", "bf16"},
          {"micro-batch", "1"},
          {"accumulation", "1"},
          {"checkpointing", "none"},
          {"optimizer", "adamw"},
          {"attention", "sdpa"},
          {"loss", "hf"}};
}

std::vector<OptionValue> options_of(const ParallelPlan& plan, const ir::ModelSpec& model) {
  const ParallelPlan usual = usual_plan(model);
  std::vector<OptionValue> options;
  const auto add_if = [&](bool differs, const char* name, std::string value) {
    if (differs) {
      options.push_back({name, std::move(value)});
    }
  };
  const auto whole = [&](const char* name, std::int64_t value, std::int64_t fallback) {
    add_if(value != fallback, name, std::to_string(value));
  };
  const bool zero = plan.zero.has_value();
  whole("gpus", plan.world, 1);
  add_if(plan.rank.has_value(), "rank", std::to_string(plan.rank.value_or(0)));
  add_if(zero, "zero", zero ? std::to_string(plan.zero->stage) : "");
  add_if(zero && plan.zero->decay_groups, "decay-groups", "");
  add_if(zero && !offload_text(*plan.zero).empty(), "offload",
         zero ? offload_text(*plan.zero) : "");
  add_if(zero && !zero_plus_text(*plan.zero).empty(), "zeropp",
         zero ? zero_plus_text(*plan.zero) : "");
  const bool implied = zero || plan.megatron || plan.titan || plan.tune || plan.runtime == "fsdp";
  add_if(!implied && plan.runtime != usual.runtime, "runtime", plan.runtime);
  add_if(!plan.runtime_version.empty(), "runtime-version", plan.runtime_version);
  const bool fsdp = shards_by_fsdp(plan);
  add_if(fsdp, "fsdp", fsdp_text(plan.fsdp.value_or(ir::FsdpPlan{})));
  const ir::Precision precision = zero   ? ir::Precision::kBf16Master
                                  : fsdp ? ir::Precision::kFp32
                                         : usual.precision;
  add_if(plan.precision != precision, "precision",
         std::string(ir::word_of(ir::precision_words(), plan.precision)));
  whole("micro-batch", plan.micro_batch, usual.micro_batch);
  whole("seq", plan.sequence, usual.sequence);
  whole("accumulation", plan.accumulation, usual.accumulation);
  add_if(plan.recompute != ir::Recompute::kNone, "checkpointing",
         ir::checkpointing_text(plan.recompute, plan.recompute_every));
  add_if(!(plan.optimizer == ir::runtime_of(plan).usual_optimizer(plan)), "optimizer",
         std::string(ir::word_of(ir::optimizer_words(), plan.optimizer)));
  add_if(plan.attention != usual.attention, "attention",
         std::string(ir::word_of(ir::attention_words(), plan.attention)));
  add_if(plan.loss != usual.loss, "loss", std::string(ir::word_of(ir::loss_words(), plan.loss)));
  add_if(plan.liger, "liger", "");
  add_if(plan.generation.has_value(), "generate",
         plan.generation ? std::to_string(plan.generation->new_tokens) : "");
  add_if(plan.lora.has_value(), plan.quant ? "qlora" : "lora", plan.lora ? adapter_text(plan) : "");
  add_if(plan.ddp.has_value() && !(*plan.ddp == ir::DdpPlan{}), "ddp",
         plan.ddp ? ddp_text(*plan.ddp) : "");
  add_if(plan.titan.has_value(), "titan", plan.titan ? titan_text(*plan.titan) : "");
  add_if(plan.tune.has_value(), "tune", plan.tune ? tune_text(*plan.tune) : "");
  add_if(plan.megatron.has_value(), "megatron", plan.megatron ? megatron_text(*plan.megatron) : "");
  add_if(!(plan.allocator == usual.allocator), "alloc-conf", to_text(plan.allocator));
  add_if(plan.clip_norm.has_value(), "clip-norm", plan.clip_norm ? real_text(*plan.clip_norm) : "");
  add_if(plan.padded_batch, "padded", "");
  add_if(plan.keep_logits, "keep-logits", "");
  add_if(plan.keep_batch, "keep-batch", "");
  add_if(plan.evaluation, "evaluation", "");
  add_if(plan.checkpoint_save, "save", "");
  whole("steps", plan.steps, usual.steps);
  return options;
}

}  // namespace headroom::cli
