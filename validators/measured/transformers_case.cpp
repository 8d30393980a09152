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
constexpr std::array<Word<OptimizerPlan>, 10> kOptimizers = {
    {{"adamw", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"adamw_foreach", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"adamw_fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
     {"adamw_loop", {OptimizerKind::kAdamW, OptimizerForm::kLoop, 0}},
     {"adam8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"sgd", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}},
     {"sgd_momentum", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0.9}},
     {"adafactor", {OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0}},
     {"adafactor_torch", {OptimizerKind::kAdafactorTorch, OptimizerForm::kForeach, 0}},
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

/// `tied`: the harness leaves a tied embedding in the group of the root.
void read_fsdp(CaseReader& parallel, bool tied, ir::ParallelPlan& plan) {
  constexpr std::array<Word<ir::DType>, 3> kTypes = {
      {{"fp32", ir::DType::kFp32}, {"bf16", ir::DType::kBf16}, {"fp16", ir::DType::kFp16}}};
  plan.runtime = ir::RuntimeKind::kFsdp;
  ir::FsdpPlan fsdp;
  fsdp.reshard_after_forward = parallel.flag("reshard", true);
  fsdp.shard_decoder = false;  // The harness shards the layers of the first list that it finds.
  fsdp.shard_embeddings = parallel.flag("shard_embeddings", false) && !tied;
  fsdp.param_dtype = parallel.word<ir::DType>("param_dtype", "bf16", kTypes);
  fsdp.reduce_dtype = parallel.word<ir::DType>("reduce_dtype", "fp32", kTypes);
  fsdp.replicas = parallel.integer("replicate", 1, kWorldRange);
  if (parallel.flag("offload", false)) {
    parallel.fail("offload", "true");
  }
  plan.fsdp = fsdp;
}

/// Whether the configuration does not say that embedding and head are apart.
bool says_tied(const JsonValue* config) {
  const JsonValue* tied = config != nullptr ? config->find("tie_word_embeddings") : nullptr;
  return tied == nullptr || tied->as_bool().value_or(true);
}

bool says(const JsonValue* value, std::string_view word) {
  return value != nullptr && value->as_string() != nullptr && *value->as_string() == word;
}

void read_parallel(CaseReader& reader, ir::ParallelPlan& plan) {
  const JsonValue* config = reader.take("config");
  const JsonValue* value = reader.take("parallel");
  if (value == nullptr) {
    return;
  }
  CaseReader parallel(value, "case.parallel");
  // `eager` is about when communicators are made; the ranks of a group are alike.
  constexpr std::array<std::string_view, 2> kAside = {"eager", "rank"};
  parallel.ignore(kAside);
  plan.world = parallel.integer("world", 1, kWorldRange);
  if (const std::string kind = parallel.text("kind", ""); kind == "ddp") {
    read_ddp(parallel, plan);
  } else if (kind == "fsdp2") {
    read_fsdp(parallel, says_tied(config), plan);
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

void read_transformers_case(CaseReader& reader, RunSetting& setting) {
  ir::ParallelPlan& plan = setting.plan;
  plan.runtime = ir::RuntimeKind::kTransformers;
  read_common_keys(reader, plan);
  plan.precision = read_precision(reader, {"param_dtype", "fp32"});
  plan.optimizer = reader.word<OptimizerPlan>("optimizer", "adamw", kOptimizers);
  if (const double clip = reader.number("clip", 0); clip != 0) {
    plan.clip_norm = clip;
  }
  plan.keep_logits = !reader.flag("drop_logits", true);
  plan.evaluation = reader.flag("eval", false);
  if (reader.flag("cudnn", false)) {
    reader.fail("cudnn", "true");
  }
  read_lora(reader, plan);
  read_parallel(reader, plan);
}

}  // namespace headroom::check
