// llm-foundry's throughput tables: MPT under Composer and FSDP1.
#include "validators/measured/published_foundry.h"

#include <array>
#include <string>
#include <utility>

#include "validators/measured/case_plan.h"
#include "validators/measured/case_reader.h"
#include "validators/measured/published_reader.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

// The benchmark's --attn_impl is "triton" unless told otherwise (scripts/train/benchmarking/
// submit_benchmarks.py, June 2023 to January 2024): FlashAttention's first version in Triton. The
// second one is 1.3 to 2.5 times as fast (Dao 2023, arXiv:2307.08691, section 4.1); the geometric
// mean of the two.
constexpr double kTritonAttention = 1.8;

ir::ModelSpec read_mpt(CaseReader& row, std::int64_t sequence) {
  CaseReader model(row.take("model"), "model");
  constexpr std::array<Word<bool>, 1> kArchitectures = {
      {{"mpt (no bias, ALiBi or learned pos per yaml)", true}}};
  static_cast<void>(model.word<bool>("arch", "", kArchitectures));
  ir::ModelSpec spec;
  spec.name = model.text("name", "");
  spec.family = ir::Family::kOpt;
  spec.norm = ir::NormKind::kLayer;
  spec.position = ir::PositionKind::kLearned;
  spec.gated_mlp = false;
  spec.activation = ir::Activation::kGelu;
  spec.hidden = spec.embedding_dim = stated(model, "hidden", kDimensionRange);
  spec.heads = stated(model, "heads", kDimensionRange);
  spec.kv_heads = stated(model, "kv_heads", kDimensionRange);
  spec.head_dim = stated(model, "head_dim", kDimensionRange);
  spec.ffn = stated(model, "ffn", kDimensionRange);
  spec.vocabulary = stated(model, "vocab", kDimensionRange);
  spec.layers.resize(static_cast<std::size_t>(stated(model, "layers", {1, 1 << 12})));
  spec.max_positions = spec.position_rows = sequence;
  spec.tied_embeddings = model.flag("tied_embeddings", true);
  expect_none(model, "moe");
  expect_none(model, "mla");
  constexpr std::array<std::string_view, 1> kAside = {"num_params"};
  model.ignore(kAside);
  row.absorb(model.trouble());
  return spec;
}

void read_foundry_sharding(CaseReader& row, ir::ParallelPlan& plan) {
  struct Sharding {
    bool reshard = true;
    ir::DType reduce = ir::DType::kFp32;
  };
  constexpr std::array<Word<Sharding>, 3> kShardings = {
      {{"FULL_SHARD, mixed_precision DEFAULT", {true, ir::DType::kFp32}},
       {"FULL_SHARD, mixed_precision PURE", {true, ir::DType::kBf16}},
       {"SHARD_GRAD_OP, mixed_precision DEFAULT", {false, ir::DType::kFp32}}}};
  const auto sharding = row.word<Sharding>("fsdp", "", kShardings);
  ir::FsdpPlan fsdp;
  fsdp.version = 1;
  fsdp.reshard_after_forward = sharding.reshard;
  fsdp.param_dtype = ir::DType::kBf16;
  fsdp.reduce_dtype = sharding.reduce;
  plan.fsdp = fsdp;
  constexpr std::array<Word<bool>, 2> kTypes = {{{"amp_bf16", true}, {"bf16", true}}};
  static_cast<void>(row.word<bool>("precision", "", kTypes));
  plan.precision = ir::Precision::kFp32;
}

ir::ParallelPlan read_foundry_plan(CaseReader& row) {
  ir::ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.sequence = stated(row, "seq_len", kSequenceRange);
  plan.micro_batch = stated(row, "micro_batch", kBatchRange);
  plan.accumulation = stated(row, "num_microbatches", {1, 1 << 16});
  plan.world = stated(row, "num_gpus", kWorldRange);
  read_foundry_sharding(row, plan);
  plan.recompute = lookup<ir::Recompute>(row, "checkpointing", published_checkpointing);
  constexpr std::array<Word<bool>, 1> kAttention = {{{"flash", true}}};
  static_cast<void>(row.word<bool>("attention", "", kAttention));
  plan.attention = ir::AttentionKind::kSdpaNoCudnn;  // Flash attention, whatever the GPU.
  constexpr std::array<Word<bool>, 1> kOptimizers = {
      {{"DecoupledAdamW (or Lion per sweep)", true}}};
  static_cast<void>(row.word<bool>("optimizer", "", kOptimizers));
  plan.optimizer = {ir::OptimizerKind::kAdamW, ir::OptimizerForm::kLoop, 0};
  for (const std::string_view axis : {"tp", "pp", "cp", "ep"}) {
    if (row.integer(axis, 1, kWorldRange) != 1) {
      row.fail(axis, "more than 1");
    }
  }
  return plan;
}

}  // namespace

PublishedPlanned plan_of_foundry_row(const MeasuredRow& row, const ScoreTools& tools) {
  CaseReader reader(&row.setting, "row");
  PublishedSetting setting;
  setting.plan = read_foundry_plan(reader);
  setting.stands_in = true;
  setting.conditions.attention_time = kTritonAttention;
  setting.model = read_mpt(reader, setting.plan.sequence);
  for (const std::string_view key : {"quant", "offload", "compile", "lora"}) {
    expect_none(reader, key);
  }
  const auto gpu = lookup<std::string_view>(reader, "gpu", published_device);
  constexpr std::array<std::string_view, 1> kBatch = {"global_batch"};
  reader.ignore(kBatch);
  ignore_remarks(reader);
  return on_device(reader, gpu, tools, std::move(setting));
}

}  // namespace headroom::check
