#include <array>

#include "validators/measured/case_plan.h"

namespace headroom::check {
namespace {

using ir::JsonValue;
using ir::OptimizerForm;
using ir::OptimizerKind;
using ir::OptimizerPlan;

// foreach is torch's default on CUDA for every optimizer that has it; transformers' Adafactor is a
// loop over the parameters.
constexpr std::array<Word<OptimizerPlan>, 14> kTransformersOptimizers = {
    {{"adamw", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"adamw_foreach", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"adamw_fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
     {"adamw_loop", {OptimizerKind::kAdamW, OptimizerForm::kLoop, 0}},
     {"adam8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"adamw8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"paged_adamw8bit", {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0}},
     {"paged_adamw32bit", {OptimizerKind::kAdamW, OptimizerForm::kPaged, 0}},
     {"sgd", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}},
     {"sgd_momentum", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0.9}},
     {"adafactor", {OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0}},
     {"adafactor_torch", {OptimizerKind::kAdafactorTorch, OptimizerForm::kForeach, 0}},
     {"muon", {OptimizerKind::kMuon, OptimizerForm::kForeach, 0}},
     {"none", {OptimizerKind::kNone, OptimizerForm::kForeach, 0}}}};

void read_ddp(CaseReader& parallel, ir::ParallelPlan& plan) {
  const double cap = parallel.number("bucket_cap_mb", 25);
  if (!(cap > 0 && cap < 1e6)) {
    parallel.fail("bucket_cap_mb", std::to_string(cap));
  }
  plan.ddp = ir::DdpPlan{
      .gradient_as_bucket_view = parallel.flag("bucket_view", false),
      .bucket_cap_bytes = cap > 0 && cap < 1e6 ? static_cast<std::int64_t>(cap * kMiB) : 25 * kMiB};
  if (parallel.flag("static_graph", false)) {
    parallel.fail("static_graph", "true");
  }
}

/// A type of the mixed-precision policy: null leaves the parameters' own.
ir::DType policy_dtype(CaseReader& parallel, std::string_view key, std::string_view absent,
                       const ir::ParallelPlan& plan) {
  constexpr std::array<Word<ir::DType>, 3> kTypes = {
      {{"fp32", ir::DType::kFp32}, {"bf16", ir::DType::kBf16}, {"fp16", ir::DType::kFp16}}};
  return parallel.is_null(key) ? ir::param_dtype(plan.precision)
                               : parallel.word<ir::DType>(key, absent, kTypes);
}

/// `tied`: the harness leaves a tied embedding in the group of the root.
void read_fsdp(CaseReader& parallel, bool tied, ir::ParallelPlan& plan) {
  plan.runtime = "fsdp";
  ir::FsdpPlan fsdp;
  const JsonValue* reshard = parallel.take("reshard");
  if (reshard != nullptr && reshard->as_integer()) {
    fsdp.reshard_ranks = parallel.integer("reshard", 0, kWorldRange);
  } else {
    fsdp.reshard_after_forward = parallel.flag("reshard", true);
  }
  fsdp.shard_decoder = false;  // The harness shards the layers of the first list that it finds.
  fsdp.shard_embeddings = parallel.flag("shard_embeddings", false) && !tied;
  fsdp.param_dtype = policy_dtype(parallel, "param_dtype", "bf16", plan);
  fsdp.reduce_dtype = policy_dtype(parallel, "reduce_dtype", "fp32", plan);
  fsdp.replicas = parallel.integer("replicate", 1, kWorldRange);
  fsdp.cpu_offload = parallel.flag("offload", false);
  plan.fsdp = fsdp;
}

/// FullyShardedDataParallel: what is not asked for is what `accelerate config` proposes.
void read_wrapper(CaseReader& parallel, std::int64_t world, ir::FsdpPlan& fsdp) {
  fsdp.version = 1;
  const std::string strategy = parallel.text("strategy", "FULL_SHARD");
  const bool hybrid = strategy == "HYBRID_SHARD" || strategy == "_HYBRID_SHARD_ZERO2";
  const bool whole = strategy == "NO_SHARD";
  fsdp.reshard_after_forward = strategy == "FULL_SHARD" || strategy == "HYBRID_SHARD";
  if ((!hybrid && !whole && strategy != "FULL_SHARD" && strategy != "SHARD_GRAD_OP") ||
      hybrid != (fsdp.replicas > 1)) {
    parallel.fail("strategy", "'" + strategy + "'");
  }
  fsdp.replicas = whole ? world : fsdp.replicas;
  constexpr std::array<Word<ir::FsdpPrefetch>, 3> kPrefetches = {
      {{"BACKWARD_PRE", ir::FsdpPrefetch::kBackwardPre},
       {"BACKWARD_POST", ir::FsdpPrefetch::kBackwardPost},
       {"none", ir::FsdpPrefetch::kNone}}};
  fsdp.backward_prefetch =
      parallel.is_null("prefetch")
          ? ir::FsdpPrefetch::kNone
          : parallel.word<ir::FsdpPrefetch>("prefetch", "BACKWARD_PRE", kPrefetches);
  fsdp.forward_prefetch = parallel.flag("forward_prefetch", false);
  fsdp.use_orig_params = parallel.flag("use_orig_params", true);
  constexpr std::array<std::string_view, 1> kAside = {"limit_all_gathers"};
  parallel.ignore(kAside);
}

/// {new_tokens, static}: prompts of `seq` tokens with a mask of ones.
void read_generation(CaseReader& reader, ir::ParallelPlan& plan) {
  const JsonValue* value = reader.take("generate");
  if (value == nullptr) {
    return;
  }
  CaseReader generate(value, "case.generate");
  plan.generation =
      ir::GenerationPlan{.new_tokens = generate.integer("new_tokens", 64, {1, 1 << 20}),
                         .static_cache = generate.flag("static", false)};
  if (!generate.flag("mask", true)) {
    generate.fail("mask", "false");
  }
  reader.absorb(generate.trouble());
}

/// Whether the configuration does not say that embedding and head are apart.
bool says_tied(const JsonValue* config) {
  const JsonValue* tied = config != nullptr ? config->find("tie_word_embeddings") : nullptr;
  return tied == nullptr || tied->as_bool().value_or(true);
}

bool says(const JsonValue* value, std::string_view word) {
  return value != nullptr && value->as_string() != nullptr && *value->as_string() == word;
}

void read_parallel(CaseReader& reader, RunSetting& setting) {
  ir::ParallelPlan& plan = setting.plan;
  const JsonValue* config = reader.take("config");
  const JsonValue* value = reader.take("parallel");
  if (value == nullptr) {
    return;
  }
  CaseReader parallel(value, "case.parallel");
  constexpr std::array<std::string_view, 1> kAside = {"eager"};  // When communicators are made.
  parallel.ignore(kAside);
  plan.world = parallel.integer("world", 1, kWorldRange);
  setting.rank = ir::Rank{static_cast<std::int32_t>(parallel.integer("rank", 0, {0, 1 << 20}))};
  if (const std::string kind = parallel.text("kind", ""); kind == "ddp") {
    read_ddp(parallel, plan);
  } else if (kind == "fsdp2" || kind == "fsdp1") {
    read_fsdp(parallel, says_tied(config), plan);
    if (kind == "fsdp1") {
      read_wrapper(parallel, plan.world, *plan.fsdp);
    }
    const bool wrapped = says(reader.take("checkpointing"), "full_wrapper");
    if (wrapped && says(reader.take("task"), "seq2seq")) {
      reader.fail("checkpointing", "'full_wrapper' around the encoder's layers alone");
    }
  } else {
    parallel.fail("kind", "'" + kind + "'");
  }
  reader.absorb(parallel.trouble());
}

}  // namespace

void read_liger(CaseReader& reader, ir::ParallelPlan& plan) {
  const JsonValue* value = reader.take("liger");
  if (value == nullptr || value->as_bool() == false) {
    return;
  }
  plan.liger = true;
  if (value->as_bool()) {
    return;
  }
  CaseReader liger(value, "case.liger");
  if (liger.flag("fused_linear_cross_entropy", false)) {
    plan.loss = ir::LossKind::kFusedLinear;
  }
  for (const std::string_view kernel : {"rope", "swiglu", "rms_norm"}) {
    if (!liger.flag(kernel, true)) {
      liger.fail(kernel, "false");
    }
  }
  reader.absorb(liger.trouble());
}

void read_transformers_case(CaseReader& reader, RunSetting& setting) {
  ir::ParallelPlan& plan = setting.plan;
  plan.runtime = "transformers";
  plan.runtime_version = reader.text("library", "");  // transformers', where it is not the newest.
  read_common_keys(reader, plan);
  plan.precision = read_precision(reader, {"param_dtype", "fp32"});
  plan.optimizer = reader.word<OptimizerPlan>("optimizer", "adamw", kTransformersOptimizers);
  if (const double clip = reader.number("clip", 0); clip != 0) {
    plan.clip_norm = clip;
  }
  plan.keep_logits = !reader.flag("drop_logits", true);
  plan.evaluation = reader.flag("eval", false);
  plan.padded_batch = reader.flag("padded", false);
  // Most rows were measured with it off.
  if (!reader.flag("cudnn", false) && plan.attention == ir::AttentionKind::kSdpa) {
    plan.attention = ir::AttentionKind::kSdpaNoCudnn;
  }
  read_liger(reader, plan);
  read_generation(reader, plan);
  read_lora(reader, plan);
  read_parallel(reader, setting);
  read_quant(reader, plan);
}

}  // namespace headroom::check
