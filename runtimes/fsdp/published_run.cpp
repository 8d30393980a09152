// Reads llm-foundry's throughput tables: MPT under Composer and FSDP1.

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "runtimes/fsdp/measured_runs.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/interface/runs/published_words.h"

namespace headroom::ir::fsdp {
namespace {

// The benchmark's default --attn_impl is "triton" (scripts/train/benchmarking/submit_benchmarks.py,
// June 2023 to January 2024), which is the first version of FlashAttention in Triton. The second
// version is 1.3 to 2.5 times as fast (Dao 2023, arXiv:2307.08691, section 4.1). This is the
// geometric mean of the two.
constexpr double kTritonAttention = 1.8;

ModelSpec read_mpt(RunReader& row, std::int64_t sequence) {
  RunReader model(row.take("model"), "model");
  model.expect_one_of("arch", {"mpt (no bias, ALiBi or learned pos per yaml)"});
  ModelSpec spec;
  spec.name = model.text("name", "");
  spec.family = Family::kOpt;
  spec.norm = NormKind::kLayer;
  spec.position = PositionKind::kLearned;
  spec.gated_mlp = false;
  spec.activation = Activation::kGelu;
  spec.hidden = spec.embedding_dim = model.stated("hidden", kDimensionRange);
  spec.heads = model.stated("heads", kDimensionRange);
  spec.kv_heads = model.stated("kv_heads", kDimensionRange);
  spec.head_dim = model.stated("head_dim", kDimensionRange);
  spec.ffn = model.stated("ffn", kDimensionRange);
  spec.vocabulary = model.stated("vocab", kDimensionRange);
  spec.layers.resize(static_cast<std::size_t>(model.stated("layers", {1, 1 << 12})));
  spec.max_positions = spec.position_rows = sequence;
  spec.tied_embeddings = model.flag("tied_embeddings", true);
  model.expect_none({"moe", "mla"});
  constexpr std::array<std::string_view, 1> kAside = {"num_params"};
  model.ignore(kAside);
  row.absorb(model.trouble());
  return spec;
}

void read_foundry_sharding(RunReader& row, ParallelPlan& plan) {
  struct Sharding {
    bool reshard = true;
    DType reduce = DType::kFp32;
  };
  constexpr std::array<RowWord<Sharding>, 3> kShardings = {
      {{"FULL_SHARD, mixed_precision DEFAULT", {true, DType::kFp32}},
       {"FULL_SHARD, mixed_precision PURE", {true, DType::kBf16}},
       {"SHARD_GRAD_OP, mixed_precision DEFAULT", {false, DType::kFp32}}}};
  const auto sharding = row.word<Sharding>("fsdp", "", kShardings);
  FsdpPlan fsdp;
  fsdp.version = 1;
  fsdp.reshard_after_forward = sharding.reshard;
  fsdp.param_dtype = DType::kBf16;
  fsdp.reduce_dtype = sharding.reduce;
  edit_fsdp(plan) = fsdp;
  row.expect_one_of("precision", {"amp_bf16", "bf16"});
  plan.precision = Precision::kFp32;
}

ParallelPlan read_foundry_plan(RunReader& row) {
  ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.workload.sequence = row.stated("seq_len", kSequenceRange);
  plan.workload.micro_batch = row.stated("micro_batch", kBatchRange);
  plan.workload.accumulation = row.stated("num_microbatches", {1, 1 << 16});
  plan.world = row.stated("num_gpus", kWorldRange);
  read_foundry_sharding(row, plan);
  plan.recompute = row.lookup<Recompute>("checkpointing", published_checkpointing);
  row.expect_one_of("attention", {"flash"});
  plan.attention = AttentionKind::kSdpaNoCudnn;  // Flash attention on every GPU.
  row.expect_one_of("optimizer", {"DecoupledAdamW (or Lion per sweep)"});
  plan.optimizer = {OptimizerKind::kAdamW, OptimizerForm::kLoop, 0};
  row.expect_one({"tp", "pp", "cp", "ep"});
  return plan;
}

}  // namespace

void read_foundry_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/,
                      PublishedRun& run) {
  run.plan = read_foundry_plan(row);
  run.stands_in = true;
  run.conditions.attention_time = kTritonAttention;
  run.flops = FlopCount{};
  run.model = read_mpt(row, run.plan.workload.sequence);
  row.expect_none({"quant", "offload", "compile", "lora"});
  constexpr std::array<std::string_view, 1> kBatch = {"global_batch"};
  row.ignore(kBatch);
}

}  // namespace headroom::ir::fsdp
