// Runs of transformers' models on one GPU and under DDP.
#include <array>
#include <string>

#include "runtimes/torch/ddp_plan.h"
#include "runtimes/transformers/recorded_keys.h"

namespace headroom::ir::transformers {
namespace {

// foreach is torch's default on CUDA for every optimizer that has it; transformers' Adafactor loops
// over the parameters.
constexpr std::array<RowWord<OptimizerPlan>, 14> kTransformersOptimizers = {
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

void read_ddp(RunReader& parallel, ParallelPlan& plan) {
  const double cap = parallel.number("bucket_cap_mb", 25);
  if (!(cap > 0 && cap < 1e6)) {
    parallel.fail("bucket_cap_mb", std::to_string(cap));
  }
  edit_ddp(plan) = DdpPlan{
      .gradient_as_bucket_view = parallel.flag("bucket_view", false),
      .bucket_cap_bytes = cap > 0 && cap < 1e6 ? static_cast<std::int64_t>(cap * kMiB) : 25 * kMiB,
      .init_sync = parallel.flag("init_sync", false)};
  if (parallel.flag("static_graph", false)) {
    parallel.fail("static_graph", "true");
  }
}

/// {new_tokens, static}: prompts of `seq` tokens with a mask of ones.
void read_generation(RunReader& row, ParallelPlan& plan) {
  const JsonValue* value = row.take("generate");
  if (value == nullptr) {
    return;
  }
  RunReader generate(value, "case.generate");
  plan.workload.generation =
      GenerationPlan{.new_tokens = generate.integer("new_tokens", 64, {1, 1 << 20}),
                     .static_cache = generate.flag("static", false)};
  if (!generate.flag("mask", true)) {
    generate.fail("mask", "false");
  }
  row.absorb(generate.trouble());
}

void read_one_gpu_or_ddp(RunReader& row, RunSetting& run) {
  run.plan.runtime = "transformers";
  read_training_keys(row, run.plan);
  read_replicas(row, run);
  read_quant(row, run.plan);
}

}  // namespace

void read_replicas(RunReader& row, RunSetting& run) {
  const JsonValue* value = row.take("parallel");
  if (value == nullptr) {
    return;
  }
  RunReader parallel(value, "case.parallel");
  read_ranks(parallel, run);
  if (const std::string kind = parallel.text("kind", ""); kind == "ddp") {
    read_ddp(parallel, run.plan);
  } else {
    parallel.fail("kind", "'" + kind + "'");
  }
  row.absorb(parallel.trouble());
}

void read_liger(RunReader& row, ParallelPlan& plan) {
  const JsonValue* value = row.take("liger");
  if (value == nullptr || value->as_bool() == false) {
    return;
  }
  plan.liger = true;
  if (value->as_bool()) {
    return;
  }
  RunReader liger(value, "case.liger");
  if (liger.flag("fused_linear_cross_entropy", false)) {
    plan.loss = LossKind::kFusedLinear;
  }
  // The other kernels are patched together or not at all.
  const bool patched = liger.flag("rope", true);
  plan.liger = patched;
  for (const std::string_view kernel : {"swiglu", "rms_norm"}) {
    if (liger.flag(kernel, true) != patched) {
      liger.fail(kernel, patched ? "false" : "true");
    }
  }
  row.absorb(liger.trouble());
}

void read_training_keys(RunReader& row, ParallelPlan& plan) {
  plan.runtime_version = row.text("library", "");  // transformers' version, if not the newest.
  read_common_keys(row, plan);
  plan.precision = read_precision(row, {"param_dtype", "fp32"});
  plan.optimizer = row.word<OptimizerPlan>("optimizer", "adamw", kTransformersOptimizers);
  if (const double clip = row.number("clip", 0); clip != 0) {
    plan.clip_norm = clip;
  }
  plan.workload.keep_logits = !row.flag("drop_logits", true);
  plan.workload.evaluation = row.flag("eval", false);
  plan.workload.resume = row.flag("resume", false);
  plan.workload.padded_batch = row.flag("padded", false);
  // Most rows were measured with it disabled.
  if (!row.flag("cudnn", false) && plan.attention == AttentionKind::kSdpa) {
    plan.attention = AttentionKind::kSdpaNoCudnn;
  }
  read_liger(row, plan);
  read_generation(row, plan);
  read_lora(row, plan);
}

void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run) {
  read_run_of_model(row, recorder, run, read_one_gpu_or_ddp);
}

}  // namespace headroom::ir::transformers
