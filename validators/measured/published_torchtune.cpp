// Published rows of torchtune: its recipes for one GPU and for FSDP2.
#include <array>

#include "validators/measured/case_plan.h"
#include "validators/measured/published_reader.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

struct TuneOptimizer {
  ir::OptimizerForm form = ir::OptimizerForm::kFused;
  bool in_backward = false;
};
// torch's AdamW is fused in the configurations that name it.
constexpr std::array<Word<TuneOptimizer>, 3> kTuneOptimizers = {
    {{"AdamW fused", {ir::OptimizerForm::kFused, false}},
     {"AdamW", {ir::OptimizerForm::kFused, false}},
     {"PagedAdamW8bit, optimizer in backward", {ir::OptimizerForm::kPagedEightBit, true}}}};

constexpr std::array<Word<bool>, 2> kTuneCompile = {{{"none", false}, {"torch.compile", true}}};

constexpr std::array<Word<std::int64_t>, 4> kTuneAdapterRanks = {
    {{"", 0},
     {"LoRA r8 alpha16 on q,v,output_proj + MLP", 8},
     {"LoRA r16 alpha32 on q,v,output_proj + MLP", 16},
     {"LoRA r64 alpha128 on q,v,output_proj + MLP", 64}}};

constexpr std::array<Word<bool>, 3> kTuneQuants = {
    {{"", false},
     {"NF4 base", true},
     {"NF4 base weights (torchao, double quantised scales)", true}}};

constexpr std::array<Word<bool>, 2> kTuneShardings = {{{"", false}, {"FSDP2 full shard", true}}};

enum class TuneOffload : std::uint8_t { kNone, kActivations, kStates };
constexpr std::array<Word<TuneOffload>, 3> kTuneOffloads = {
    {{"", TuneOffload::kNone},
     {"activation offloading (checkpoint inputs to CPU)", TuneOffload::kActivations},
     {"FSDP CPU offload (params, grads, optimizer)", TuneOffload::kStates}}};

constexpr std::array<Word<ir::LossKind>, 2> kTuneLosses = {
    {{"CE", ir::LossKind::kHf}, {"chunked CE (8 chunks)", ir::LossKind::kChunked}}};

/// Every batch is full only where examples are packed.
void read_tune_remarks(CaseReader& row, ir::ParallelPlan& plan) {
  CaseReader other(row.take("other"), "other");
  plan.loss = other.word<ir::LossKind>("loss", "chunked CE (8 chunks)", kTuneLosses);
  if (!other.flag("packed", true)) {
    row.fail("other.packed", "false, so seq_len is only the limit");
  }
  plan.tune->optimizer_in_backward =
      other.flag("optimizer_in_backward", plan.tune->optimizer_in_backward);
  constexpr std::array<std::string_view, 1> kAside = {"step"};
  other.ignore(kAside);
  row.absorb(other.trouble());
}

void read_tune_adapters(CaseReader& row, ir::ParallelPlan& plan) {
  if (const auto rank = row.word<std::int64_t>("lora", "", kTuneAdapterRanks); rank != 0) {
    plan.lora = ir::LoraPlan{
        .rank = rank,
        .targets = {"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};
  }
  if (row.word<bool>("quant", "", kTuneQuants)) {
    plan.quant = ir::QuantPlan{.bits = 4, .double_quant = true, .prepare_kbit = false};
  }
}

void read_tune_spread(CaseReader& row, ir::ParallelPlan& plan) {
  plan.world = stated(row, "num_gpus", kWorldRange);
  const bool sharded = row.word<bool>("fsdp", "", kTuneShardings);
  const auto offload = row.word<TuneOffload>("offload", "", kTuneOffloads);
  plan.tune->offload_activations = offload == TuneOffload::kActivations;
  if (sharded) {
    // The configuration that offloads names tok_embeddings and output in custom_sharded_layers.
    const bool offloads = offload == TuneOffload::kStates;
    plan.fsdp = ir::FsdpPlan{
        .shard_embeddings = offloads, .reduce_dtype = ir::DType::kBf16, .cpu_offload = offloads};
  } else if (plan.world > 1) {
    row.fail("num_gpus", std::to_string(plan.world) + " without a stated way to spread");
  }
  for (const std::string_view axis : {"tp", "pp", "cp", "ep"}) {
    if (row.integer(axis, 1, kWorldRange) != 1) {
      row.fail(axis, "more than 1");
    }
  }
}

}  // namespace

std::string read_torchtune_row(CaseReader& row, ir::ParallelPlan& plan) {
  plan.runtime = "torchtune";
  plan.tune.emplace();
  plan.micro_batch = stated(row, "micro_batch", kBatchRange);
  plan.sequence = stated(row, "seq_len", kSequenceRange);
  plan.precision = lookup<ir::Precision>(row, "precision", published_precision);
  const auto optimizer = row.word<TuneOptimizer>("optimizer", "not stated", kTuneOptimizers);
  plan.optimizer.form = optimizer.form;
  plan.tune->optimizer_in_backward = optimizer.in_backward;
  plan.recompute = lookup<ir::Recompute>(row, "checkpointing", published_checkpointing);
  plan.tune->compiled = row.word<bool>("compile", "not stated", kTuneCompile);
  if (plan.tune->compiled && plan.recompute == ir::Recompute::kNone) {
    row.fail("compile", "'torch.compile' without checkpointing: what layers keep is not modelled");
  }
  expect_none(row, "attention");
  read_tune_spread(row, plan);
  read_tune_remarks(row, plan);
  read_tune_adapters(row, plan);
  plan.accumulation = published_accumulation(row, plan);
  return published_config(row);
}

}  // namespace headroom::check
